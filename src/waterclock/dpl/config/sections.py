"""Sections of the project file that an environment may override: users, sign-in, and hours of maintenance."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from waterclock.dpl.config.secret_setting import SecretSetting

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


class UserSection(BaseModel):
    """The section [users.NAME]: the roles of a user, and attributes for conditions and masks of grants."""

    model_config = _STRICT
    roles: list[str] = Field(default_factory=list)
    attributes: dict[str, str | int | float | bool | dt.datetime | dt.date] = Field(default_factory=dict)


class ClaimSection(BaseModel):
    """An attribute in [sign_in.oidc]: the claim with its value, and its type. A string alone is a claim with a text."""

    model_config = _STRICT
    claim: str
    type: Literal["text", "number", "boolean"] = "text"

    @model_validator(mode="before")
    @classmethod
    def _read_name(cls, value: Any) -> Any:
        return {"claim": value} if isinstance(value, str) else value


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
    attributes: dict[str, ClaimSection] = Field(default_factory=dict)


class SignInSection(BaseModel):
    """The section [sign_in]: the proxies whose headers are trusted, and how long accesses are recorded."""

    model_config = _STRICT
    proxies: list[str] = Field(default_factory=list)
    keep_accesses: str = "400 DAYS"
    oidc: OidcSection | None = None


class MaintenanceSection(BaseModel):
    """The section [maintenance]: hours in which a watching run maintains its tables, and the most bytes to join."""

    model_config = _STRICT
    hours: str
    zone: str | None = None
    join: str = "20 GB"


def section_at(path: tuple[str, ...]) -> type[BaseModel] | None:
    """Return the section of this module at a path of the file, or None if it is another section."""
    if path[-2:-1] == ("users",):
        return UserSection
    if path[-3:-1] == ("oidc", "attributes"):
        return ClaimSection
    sections: Mapping[str, type[BaseModel]] = {
        "sign_in": SignInSection,
        "oidc": OidcSection,
        "maintenance": MaintenanceSection,
    }
    return sections.get(path[-1])
