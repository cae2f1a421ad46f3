"""The sections of the project file about people: users, and how they sign in."""

from __future__ import annotations

import datetime as dt

from pydantic import BaseModel, ConfigDict, Field

from waterclock.dpl.config.secret_setting import SecretSetting

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


class UserSection(BaseModel):
    """The section [users.NAME]: the roles of a user, and attributes for conditions and masks of grants."""

    model_config = _STRICT
    roles: list[str] = Field(default_factory=list)
    attributes: dict[str, str | int | float | bool | dt.datetime | dt.date] = Field(default_factory=dict)


class OidcSection(BaseModel):
    """The section [sign_in.oidc]: the OpenID Connect provider, and the claims that contain a user's name and groups."""

    model_config = _STRICT
    issuer: str
    client_id: str
    client_secret: str | SecretSetting | None = None
    scopes: list[str] = Field(default_factory=list)
    user_claim: str = "sub"
    group_claim: str = "groups"
    group_roles: dict[str, list[str]] = Field(default_factory=dict)


class SignInSection(BaseModel):
    """The section [sign_in]: the proxies whose headers are trusted, and how long accesses are recorded."""

    model_config = _STRICT
    proxies: list[str] = Field(default_factory=list)
    keep_accesses: str = "400 DAYS"
    oidc: OidcSection | None = None
