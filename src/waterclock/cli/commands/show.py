"""`waterclock show`: describes a table, its status and some of its rows."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Env, ProjectDir

OneTable = Annotated[str, typer.Argument(metavar="TABLE", help="The table.", autocompletion=tables_from)]
Rows = Annotated[
    int, typer.Option("--rows", "-n", metavar="N", min=0, help="How many rows of the newest label; 0 starts no JVM.")
]


def show(
    table: OneTable,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    rows: Rows = 5,
    json: AsJson = False,
) -> None:
    """Show a table: its declaration, its columns, its status and some rows of its newest label."""
    from waterclock.cli.views.json import print_answer
    from waterclock.cli.views.show import describe_table, print_described

    found = describe_table(project, env, table, rows)
    if json:
        print_answer(found.to_answer())
    else:
        print_described(found)
