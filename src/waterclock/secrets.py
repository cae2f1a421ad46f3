"""Where the value of a secret comes from: variables, files, the system's keyring, or Vault; asked when needed."""

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
    """Where an environment keeps secrets in Vault's key-value store, and how we are known there.

    `mount` is where the store is mounted, `path` what stands before each name. `auth` is one of `token`, `approle`,
    `kubernetes` and `certificate`; `token` and `secret_id` are the names of secrets, which lie in the environment or a
    file. Files are absolute. `version` is that of the key-value store, 1 or 2.
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
    """Where an environment's secrets may lie, beside the variables of the process.

    `folder` is one of files. `keyring` is the service of the system's keyring under which they are kept.
    """

    folder: Path
    keyring: str | None = None
    vault: VaultPlace | None = None

    @property
    def can_tell(self) -> bool:
        """Whether a look at variables and files tells that a secret is nowhere: neither keyring nor Vault is named."""
        return self.keyring is None and self.vault is None


@dataclass(frozen=True, slots=True)
class Secrets:
    """Reads secrets by name: the variable `WATERCLOCK_SECRET_<NAME>`, the file of that name, the keyring, then Vault.

    `ops/password` is WATERCLOCK_SECRET_OPS_PASSWORD, or the file ops/password, of which one newline at the end is
    left out: the form in which Docker and Kubernetes hand secrets over. A value that was changed is the new one at the
    next reading; of Vault within five seconds.
    """

    places: SecretPlaces
    environ: Mapping[str, str]

    @classmethod
    def of(cls, places: SecretPlaces) -> Secrets:
        """Read from this process's environment, and from these places."""
        return cls(places, os.environ)

    def has(self, name: str) -> bool:
        """Tell whether a secret resolves, without reading its value. Neither keyring nor Vault is asked: they may."""
        return variable_of(name) in self.environ or self._file(name) is not None or not self.places.can_tell

    def read(self, name: str) -> str:
        """Return the value of a secret.

        Raises  E225 where it does not resolve, naming the places looked at; E920 where keyring or Vault do not answer
                or refuse; E921 where what asks them is not installed
        """
        value = self._at_hand(name)
        if value is None and self.places.keyring is not None:
            from waterclock.secret_stores import in_keyring

            value = in_keyring(self.places.keyring, name)
        if value is None and self.places.vault is not None:
            from waterclock.secret_stores import in_vault

            value = in_vault(self.places.vault, name, self._required_at_hand)
        if value is None:
            raise self.unresolved(name)
        return value

    def value_of(self, said: T | Secret) -> T | str:
        """Return what a setting says, or the value of the secret that it names. Raises as `read`."""
        return self.read(said.name) if isinstance(said, Secret) else said

    def unresolved(self, name: str) -> WaterclockError:
        """Make the error for a secret that is nowhere."""
        looked = [f"the variable {variable_of(name)}", f"the file {self.places.folder.name}/{name}"]
        if self.places.keyring is not None:
            looked.append(f"{name} of the service {self.places.keyring} in the keyring")
        if self.places.vault is not None:
            from waterclock.secret_stores import shown_in_vault

            looked.append(shown_in_vault(self.places.vault, name))
        return WaterclockError(
            "E225",
            f"secret {name} does not resolve",
            why=f"looked for {', then for '.join(looked)}",
            fix="set the variable, or write the file and keep it out of version control"
            if self.places.can_tell
            else "put it into one of these places",
        )

    def _at_hand(self, name: str) -> str | None:
        value = self.environ.get(variable_of(name))
        if value is not None:
            return value
        file = self._file(name)
        return None if file is None else file.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")

    def _required_at_hand(self, name: str) -> str:
        value = self._at_hand(name)
        if value is None:
            raise Secrets(SecretPlaces(self.places.folder), self.environ).unresolved(name)
        return value

    def _file(self, name: str) -> Path | None:
        path = self.places.folder / name
        is_inside = ".." not in Path(name).parts and not Path(name).is_absolute()
        return path if is_inside and path.is_file() else None


def variable_of(name: str) -> str:
    """Return the environment variable of a secret: `ops/password` → `WATERCLOCK_SECRET_OPS_PASSWORD`."""
    return _PREFIX + re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
