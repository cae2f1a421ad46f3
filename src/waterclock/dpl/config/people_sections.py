"""The sections of the project file about people: users."""

from __future__ import annotations

import datetime as dt

from pydantic import BaseModel, ConfigDict, Field


class UserSaid(BaseModel):
    """The section [users.NAME]: the roles of a user, and attributes for rules about rows."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    roles: list[str] = Field(default_factory=list)
    attributes: dict[str, str | int | float | bool | dt.datetime | dt.date] = Field(default_factory=dict)
