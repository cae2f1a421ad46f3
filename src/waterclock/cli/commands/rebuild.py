"""`waterclock rebuild`: rebuilds tables from their stage."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Env, ProjectDir, Yes

Which = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SELECTION",
        help="Tables, as for run: marts.delays, +marts.delays, marts.*, …",
        autocompletion=tables_from,
    ),
]


def rebuild(
    selection: Which = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Every table, from one state of the stage; all are replaced at once.")
    ] = False,
    project: ProjectDir = HERE,
    env: Env = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Rebuild tables from their stage, as they are declared now. Type, mode and keys may have changed.

    With --all, every transform runs again on all data collected so far, next to the live tables. Then all new tables
    replace the live ones at once. Cadence and zone may have changed too.
    """
    if everything == bool(selection):
        raise typer.BadParameter("name the tables, or use --all", param_hint="SELECTION")
    if everything:
        from waterclock.cli.actions.rebuild_all import run_rebuild_all

        run_rebuild_all(project, env, yes=yes, is_json=json)
        return
    from waterclock.cli.actions.rebuild import run_rebuild

    run_rebuild(project, env, selection or [], yes=yes, is_json=json)
