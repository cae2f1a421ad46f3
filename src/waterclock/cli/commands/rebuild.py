"""`waterclock rebuild`: make tables anew from their stage."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Env, ProjectDir, Yes

Which = Annotated[
    list[str],
    typer.Argument(
        metavar="SELECTION",
        help="Tables, as for run: marts.delays, +marts.delays, marts.*, …",
        autocompletion=tables_from,
    ),
]


def rebuild(
    selection: Which, *, project: ProjectDir = HERE, env: Env = None, yes: Yes = False, json: AsJson = False
) -> None:
    """Make tables anew from their sealed slices, as they are declared now: type, mode and keys may have changed."""
    from waterclock.cli.actions.rebuild import remade

    remade(project, env, selection, yes=yes, is_json=json)
