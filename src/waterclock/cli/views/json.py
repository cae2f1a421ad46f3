"""Prints answers for scripts: one JSON value on stdout, and nothing else there.

What a command line asked for is noted here, for whatever ends it must know too.
"""

from __future__ import annotations

import contextvars
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

JSON_VERSION = 1  # raised where a key is taken away or gets another meaning; a new key does not raise it
_json = contextvars.ContextVar("waterclock_json", default=False)
_folder = contextvars.ContextVar("waterclock_folder", default=Path())


def want_json(*, value: bool) -> None:
    """Note whether this command line asked for JSON: its errors are then JSON too."""
    _json.set(value)


def is_json() -> bool:
    """Whether this command line asked for JSON."""
    return _json.get()


def note_folder(folder: Path) -> None:
    """Note which project this command line is about."""
    _folder.set(folder)


def folder_noted() -> Path:
    """Return the project's folder of this command line."""
    return _folder.get()


def print_json(value: Mapping[str, Any]) -> None:
    """Print an object, the version of its shape first; instants as `2013-01-05T05:00:00Z`."""
    json.dump({"version": JSON_VERSION, **value}, sys.stdout, indent=2, default=_plain, ensure_ascii=False)
    sys.stdout.write("\n")


def instant_text(instant: datetime | None) -> str | None:
    """Write an instant in UTC as JSON has it."""
    if instant is None:
        return None
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return instant_text(value) if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
