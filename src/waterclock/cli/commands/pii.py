"""`waterclock pii`: reports columns with personal data."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Env, ProjectDir

Tables = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TABLES]...", help="Tables, such as raw.people or raw.*.", autocompletion=tables_from),
]
Rows = Annotated[
    int,
    typer.Option(
        "--rows",
        metavar="N",
        min=0,
        help="Also search the values of so many stored rows of each table's newest label, at most 2000. Starts Spark.",
    ),
]


def pii(
    tables: Tables = None,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    rows: Rows = 0,
    json: AsJson = False,
) -> None:
    """Report columns with personal data: by tags, names, lineage and, with --rows, values. Never prints a value."""
    from waterclock.cli.views.json import print_json
    from waterclock.cli.views.pii import print_personal_data
    from waterclock.operations.personal_data import find_personal_data
    from waterclock.operations.project_opening import open_project

    found = find_personal_data(open_project(project, env), tables or (), rows=rows)
    print_json(found.to_json()) if json else print_personal_data(found)
