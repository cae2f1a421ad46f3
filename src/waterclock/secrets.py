"""Where the value of a secret comes from: the environment, or a file; asked for only when it is needed."""

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
class Secrets:
    """Reads secrets by name: first `WATERCLOCK_SECRET_<NAME>`, then the file of that name below `folder`.

    `ops/password` is WATERCLOCK_SECRET_OPS_PASSWORD, or the file ops/password, of which one newline at the end is
    left out: the form in which Docker and Kubernetes hand secrets over.
    """

    folder: Path
    environ: Mapping[str, str]

    @classmethod
    def of(cls, folder: Path) -> Secrets:
        """Read from this process's environment, and from files below `folder`."""
        return cls(folder, os.environ)

    def has(self, name: str) -> bool:
        """Tell whether a secret resolves, without reading its value from a file."""
        return variable_of(name) in self.environ or self._file(name) is not None

    def read(self, name: str) -> str:
        """Return the value of a secret. Raises E225 where it does not resolve, naming the places looked at."""
        value = self.environ.get(variable_of(name))
        if value is not None:
            return value
        file = self._file(name)
        if file is None:
            raise self.unresolved(name)
        return file.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")

    def value_of(self, said: T | Secret) -> T | str:
        """Return what a setting says, or the value of the secret that it names. Raises E225 as `read`."""
        return self.read(said.name) if isinstance(said, Secret) else said

    def unresolved(self, name: str) -> WaterclockError:
        """Make the error for a secret that is nowhere."""
        return WaterclockError(
            "E225",
            f"secret {name} does not resolve",
            why=f"looked for the variable {variable_of(name)}, then for the file {self.folder.name}/{name}",
            fix="set the variable, or write the file and keep it out of version control",
        )

    def _file(self, name: str) -> Path | None:
        path = self.folder / name
        is_inside = ".." not in Path(name).parts and not Path(name).is_absolute()
        return path if is_inside and path.is_file() else None


def variable_of(name: str) -> str:
    """Return the environment variable of a secret: `ops/password` → `WATERCLOCK_SECRET_OPS_PASSWORD`."""
    return _PREFIX + re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
