"""`waterclock lineage`: what a table or a column is made of, and what is made of it."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Env, ProjectDir

Which = Annotated[
    str,
    typer.Argument(
        metavar="TABLE[.COLUMN]",
        help="A table, such as marts.delays, or one of its columns.",
        autocompletion=tables_from,
    ),
]
Depth = Annotated[
    int | None, typer.Option("--depth", metavar="N", min=1, help="How far up and down; all the way, if not said.")
]


def lineage(
    which: Which,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    depth: Depth = None,
    json: AsJson = False,
) -> None:
    """Show what a table or column is made of, up to the sources, and what is made of it."""
    from waterclock.cli.views.json import print_json
    from waterclock.cli.views.lineage import lineage_of, print_lineage

    found = lineage_of(project, env, which, depth)
    if json:
        print_json(found.to_json())
    else:
        print_lineage(found)
