"""The sections of the project file about people: users, and how they sign in."""

from __future__ import annotations

import datetime as dt

from pydantic import BaseModel, ConfigDict, Field

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


class UserSection(BaseModel):
    """The section [users.NAME]: the roles of a user, and attributes for rules about rows."""

    model_config = _STRICT
    roles: list[str] = Field(default_factory=list)
    attributes: dict[str, str | int | float | bool | dt.datetime | dt.date] = Field(default_factory=dict)


class SignInSection(BaseModel):
    """The section [sign_in]: the proxies whose headers are trusted, and how long accesses are recorded."""

    model_config = _STRICT
    proxies: list[str] = Field(default_factory=list)
    keep_accesses: str = "400 DAYS"
