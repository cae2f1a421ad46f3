"""`waterclock reset`: starts a table over, as it is declared now."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Because, Env, ProjectDir, Yes

One = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="The table to start over.", autocompletion=tables_from),
]


def reset(
    which: One,
    *,
    why: Because = "",
    project: ProjectDir = HERE,
    env: Env = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Start a table over: it and its late rows are emptied, and the next run makes all batches as declared now."""
    if "@" in which:
        raise typer.BadParameter("a table is reset as a whole: remove the labels", param_hint="TABLE")
    from waterclock.cli.actions.reset import reset_table

    reset_table(project, env, which, why, yes=yes, is_json=json)
