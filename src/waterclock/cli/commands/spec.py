"""`waterclock spec`: runs business rules that are specified by example."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILES", help="Files *.feature, or folders of them; by default all of specs/.", show_default=False
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--name", "-n", metavar="PATTERN", help="Only scenarios whose feature, rule or name contains this text."
    ),
]
Tags = Annotated[
    str | None,
    typer.Option("--tags", "-t", metavar="TAGS", help="Only scenarios with one of these tags: late,mart,not slow"),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write the living document: one page of rules, examples and code."),
]


def spec(
    files: Files = None,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    name: Name = None,
    tags: Tags = None,
    html: Html = None,
    json: AsJson = False,
) -> None:
    """Run the examples in specs/*.feature on separate tables, and report which business rules pass."""
    from waterclock.cli.actions.spec import SpecSelection, run_specs

    raise typer.Exit(run_specs(project, env, SpecSelection(tuple(files or ()), name, tags, html), is_json=json))
