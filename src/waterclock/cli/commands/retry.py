"""`waterclock retry`: makes failed, held and skipped batches again, and runs the batches that they blocked."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Because, Env, Now, ProjectDir, SomeLabels

Which = Annotated[
    str | None,
    typer.Argument(
        metavar="SELECTION",
        help="Tables, as for run; by default all.",
        show_default=False,
        autocompletion=tables_from,
    ),
]
OnlyClear = Annotated[bool, typer.Option("--no-run", help="Only record the request: the next run carries it out.")]


def retry(  # noqa: PLR0913 - each is an option
    selection: Which = None,
    labels: SomeLabels = None,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    why: Because = "",
    no_run: OnlyClear = False,
    json: AsJson = False,
) -> None:
    """Make failed, held and skipped batches due again, and run them.

    The batches that they blocked and the batches that depend on them run too.
    """
    from waterclock.cli.actions.retry import retry_batches

    raise typer.Exit(retry_batches(project, env, (selection, labels), now, why=why, is_json=json, is_run=not no_run))
