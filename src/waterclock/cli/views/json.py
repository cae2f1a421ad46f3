"""Prints answers for scripts: one JSON value on stdout, and nothing else there.

What a command line asked for is noted here, for whatever ends it must know too.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from waterclock.operations.json import json_text

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
    sys.stdout.write(json_text(value) + "\n")
