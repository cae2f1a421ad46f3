"""A setting of the project file that names a secret."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SecretSetting(BaseModel):
    """A setting whose value is a secret: `{ secret = "name" }`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    secret: str
