"""Completes names of tables and environments in a shell. It executes no file of the project and reports no errors.

A shell may evaluate completed text as code, so only names of letters, digits, `_`, `.` and `-` are completed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from waterclock.cli.project_folder import project_above

_ENVIRONMENT = "env"
_PLAIN = re.compile(r"\w[\w.-]*")


def tables_from(ctx: Any, incomplete: str) -> list[str]:
    """Return the tables whose names start with the typed text; a leading `+` stays. No file is executed."""
    sign = "+" if incomplete.startswith("+") else ""
    found: list[str] = []
    with suppress(Exception):
        from waterclock.dpl.declared_names import declared_tables

        found = declared_tables(_project_folder(ctx), ctx.params.get(_ENVIRONMENT))
    return [f"{sign}{name}" for name in _plain_names(found, incomplete.removeprefix("+"))]


def environments_from(ctx: Any, incomplete: str) -> list[str]:
    """Return the environments whose names start with the typed text."""
    found: list[str] = []
    with suppress(Exception):
        import tomllib

        from waterclock.dpl.project_files import read_project_file

        found = sorted(tomllib.loads(read_project_file(_project_folder(ctx).resolve()))[_ENVIRONMENT])
    return _plain_names(found, incomplete)


def _plain_names(names: Iterable[str], start: str) -> list[str]:
    """Return the names that begin with `start`, without names that a shell could evaluate as code."""
    return [name for name in names if name.startswith(start) and _PLAIN.fullmatch(name)]


def _project_folder(ctx: Any) -> Path:
    """Return the project folder from --project, or else the nearest one from the current folder upward."""
    given = ctx.params.get("project")
    return Path(given) if given else project_above(Path())
