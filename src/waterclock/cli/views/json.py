"""Prints answers for scripts: one JSON value on stdout, and nothing else there.

It also stores two options of the command line, --json and the project folder, for error handlers.
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.cli.views.output import write_out
from waterclock.operations.json import json_text

if TYPE_CHECKING:
    from waterclock.json_models.parts import Answer

_json = contextvars.ContextVar("waterclock_json", default=False)
_folder = contextvars.ContextVar("waterclock_folder", default=Path())


def want_json(*, value: bool) -> None:
    """Store whether this command line has --json. If so, its errors are printed as JSON too."""
    _json.set(value)


def is_json() -> bool:
    """Return whether this command line has --json."""
    return _json.get()


def set_project_folder(folder: Path) -> None:
    """Store the project folder of this command line."""
    _folder.set(folder)


def command_project_folder() -> Path:
    """Return the project folder of this command line."""
    return _folder.get()


def print_json(value: Mapping[str, Any]) -> None:
    """Print an object as JSON, with its format version first. Instants look like `2013-01-05T05:00:00Z`."""
    write_out(json_text(value) + "\n")


def print_answer(answer: Answer) -> None:
    """Print an answer as JSON, with its format version first."""
    print_json(answer.to_json())
