"""`waterclock model`: draws the data model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir, Selected

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="The output file: .svg or .png (by Graphviz's dot), or .dot."),
]
Flat = Annotated[
    str | None,
    typer.Option(
        "--flat", metavar="TABLE", help="Draw the tables that FLAT(TABLE) joins, and the names of their columns."
    ),
]


def model(
    selection: Selected = None,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    out: Out = None,
    flat: Flat = None,
    json: AsJson = False,
) -> None:
    """Draw tables with their keys, types and references.

    The output is text on a terminal, DOT in a pipe, or a picture with --out.
    """
    from waterclock.cli.actions.model import draw_flat, draw_model

    if flat is not None:
        draw_flat(project, env, flat, out, is_json=json)
        return

    draw_model(project, env, selection, out, is_json=json)
