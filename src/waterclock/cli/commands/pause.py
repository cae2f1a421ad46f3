"""`waterclock pause`: stops runners from starting batches of some tables or of all, and records the reason."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Env, ProjectDir

SomeTables = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SELECTION",
        help="Tables, as for run. Default: all tables, also those declared later.",
        show_default=False,
        autocompletion=tables_from,
    ),
]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason; every user sees it, with your name.")]


def pause(
    selection: SomeTables = None,
    *,
    why: Why,
    project: ProjectDir = HERE,
    env: Env = None,
    json: AsJson = False,
) -> None:
    """Pause tables, or the whole project: no new batch starts until `resume`.

    Batches that are running finish. Readers of a paused table wait.
    """
    from waterclock.cli.actions.pause import pause_tables

    pause_tables(project, env, selection, why, is_json=json)
