"""Resolves the values of secrets on demand, from variables, files, the system's keyring, or Vault."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Secret

_PREFIX = "WATERCLOCK_SECRET_"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VaultPlace:
    """The place of an environment's secrets in Vault's key-value store, and how to authenticate there.

    `mount` is the path at which the store is mounted, `path` is the prefix of each name. `auth` is one of `token`,
    `approle`, `kubernetes` and `certificate`. `token` and `secret_id` are the names of secrets, whose values are in the
    environment or a file. Files are absolute. `version` is that of the key-value store, 1 or 2.
    """

    url: str
    mount: str = "secret"
    path: str = ""
    version: int = 2
    namespace: str | None = None
    auth: str = "token"
    auth_mount: str | None = None
    role: str | None = None
    token: str | None = None
    secret_id: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None


@dataclass(frozen=True, slots=True)
class SecretPlaces:
    """The possible places of an environment's secrets, in addition to the variables of the process.

    `folder` contains one file per secret. `keyring` is the service of the system's keyring that stores them.
    """

    folder: Path
    keyring: str | None = None
    vault: VaultPlace | None = None

    @property
    def is_local_only(self) -> bool:
        """Whether variables and files alone show that a secret is missing: neither keyring nor Vault is configured."""
        return self.keyring is None and self.vault is None


@dataclass(frozen=True, slots=True)
class Secrets:
    """Reads secrets by name: the variable `WATERCLOCK_SECRET_<NAME>`, the file of that name, the keyring, then Vault.

    `ops/password` is WATERCLOCK_SECRET_OPS_PASSWORD, or the file ops/password without one final newline, the format in
    which Docker and Kubernetes provide secrets. A changed value takes effect at the next reading, from Vault within
    five seconds.
    """

    places: SecretPlaces
    environ: Mapping[str, str]

    @classmethod
    def from_places(cls, places: SecretPlaces) -> Secrets:
        """Return a reader for this process's environment and these places."""
        return cls(places, os.environ)

    def has(self, name: str) -> bool:
        """Return whether a secret may be found, without reading its value. With a keyring or Vault always True."""
        return variable_of(name) in self.environ or self._file(name) is not None or not self.places.is_local_only

    def read(self, name: str) -> str:
        """Return the value of a secret. Raises E225 if it is not found, E920 or E921 for errors of keyring or Vault."""
        value = self._find_local_value(name)
        if value is None and self.places.keyring is not None:
            from waterclock.secrets.keyring_and_vault import read_from_keyring

            value = read_from_keyring(self.places.keyring, name)
        if value is None and self.places.vault is not None:
            from waterclock.secrets.keyring_and_vault import read_from_vault

            value = read_from_vault(self.places.vault, name, self._require_local_value)
        if value is None:
            raise self.unresolved_error(name)
        return value

    def value_of(self, value: T | Secret) -> T | str:
        """Return a setting's value, or the value of the secret that the setting names. Raises as `read`."""
        return self.read(value.name) if isinstance(value, Secret) else value

    def unresolved_error(self, name: str) -> WaterclockError:
        """Return the error for a secret that is missing in all places."""
        looked = [f"the variable {variable_of(name)}", f"the file {self.places.folder.name}/{name}"]
        if self.places.keyring is not None:
            looked.append(f"{name} of the service {self.places.keyring} in the keyring")
        if self.places.vault is not None:
            from waterclock.secrets.keyring_and_vault import describe_vault_entry

            looked.append(describe_vault_entry(self.places.vault, name))
        return WaterclockError(
            "E225",
            f"secret {name} does not resolve",
            why=f"looked for {', then for '.join(looked)}",
            fix="set the variable, or write the file and keep it out of version control"
            if self.places.is_local_only
            else "put it into one of these places",
        )

    def _find_local_value(self, name: str) -> str | None:
        value = self.environ.get(variable_of(name))
        if value is not None:
            return value
        file = self._file(name)
        try:
            return None if file is None else file.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            raise WaterclockError(
                "E225",
                f"the file of secret {name} cannot be read",
                where=str(file),
                why=error.strerror if isinstance(error, OSError) else "it is not UTF-8 text",
                fix="allow the user who runs Waterclock to read it, and store it as UTF-8 text",
            ) from None  # the error of the decoder has the value

    def _require_local_value(self, name: str) -> str:
        value = self._find_local_value(name)
        if value is None:
            raise Secrets(SecretPlaces(self.places.folder), self.environ).unresolved_error(name)
        return value

    def _file(self, name: str) -> Path | None:
        path = self.places.folder / name
        is_inside = ".." not in Path(name).parts and not Path(name).is_absolute()
        try:
            return path if is_inside and path.is_file() else None
        except PermissionError:
            return path  # reading it shows why


def variable_of(name: str) -> str:
    """Return the environment variable of a secret: `ops/password` → `WATERCLOCK_SECRET_OPS_PASSWORD`."""
    return _PREFIX + re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
