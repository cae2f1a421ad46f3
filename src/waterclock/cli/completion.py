"""Finds what a shell may complete: tables and environments of the project at hand. It never fails, and says nothing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from waterclock.cli.project_folder import project_above

_ENVIRONMENT = "env"


def tables_from(ctx: Any, incomplete: str) -> list[str]:
    """Return the tables whose names go on from what is typed; a `+` before it (with all upstream) is kept.

    Cost: the project's flow, compiled or as remembered.
    """
    sign = "+" if incomplete.startswith("+") else ""
    found: list[str] = []
    with suppress(Exception):
        from waterclock.operations.opening import open_project

        flow = open_project(_folder(ctx), ctx.params.get(_ENVIRONMENT)).flow
        found = sorted(flow.tables)
    return [f"{sign}{name}" for name in found if name.startswith(incomplete.removeprefix("+"))]


def environments_from(ctx: Any, incomplete: str) -> list[str]:
    """Return the environments whose names go on from what is typed."""
    found: list[str] = []
    with suppress(Exception):
        import tomllib

        from waterclock.dpl.config.file_name import FILE

        found = sorted(tomllib.loads((_folder(ctx) / FILE).read_text(encoding="utf-8-sig"))[_ENVIRONMENT])
    return [name for name in found if name.startswith(incomplete)]


def _folder(ctx: Any) -> Path:
    """Return the folder that the command line names, else the one that commands would take."""
    said = ctx.params.get("project")
    return Path(said) if said else project_above(Path())
