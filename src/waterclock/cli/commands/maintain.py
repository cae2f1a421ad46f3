"""`waterclock maintain`: keeps a project small and fast without changing any query result."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir, Selected

DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be removed, and change nothing.")]


def maintain(
    selection: Selected = None,
    *,
    dry_run: DryRun = False,
    project: ProjectDir = HERE,
    env: Env = None,
    json: AsJson = False,
) -> None:
    """Export the ledger, join small files and remove files that are no longer needed. Query results do not change."""
    from waterclock.cli.actions.maintain import run_maintenance

    raise typer.Exit(run_maintenance(project, env, selection, is_dry=dry_run, is_json=json))
