"""`waterclock lineage`: shows the inputs and readers of a table or column, and the impact of a column."""

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
    int | None, typer.Option("--depth", metavar="N", min=1, help="How many steps up and down; by default all.")
]
Impact = Annotated[
    bool, typer.Option("--impact", help="List the tables that depend on a column: how, and their owners.")
]


def lineage(
    which: Which,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    depth: Depth = None,
    impact: Impact = False,
    json: AsJson = False,
) -> None:
    """Show the lineage of a table or column: its inputs up to the sources, and everything made from it."""
    from waterclock.cli.views.json import print_json

    if impact:
        from waterclock.cli.views.impact import impact_on, print_impact

        if depth is not None:
            raise typer.BadParameter("--impact follows all steps: remove --depth")
        impacts = impact_on(project, env, which)
        print_json(impacts.to_json()) if json else print_impact(impacts)
        return
    from waterclock.cli.views.lineage import lineage_of, print_lineage

    found = lineage_of(project, env, which, depth)
    if json:
        print_json(found.to_json())
    else:
        print_lineage(found)
