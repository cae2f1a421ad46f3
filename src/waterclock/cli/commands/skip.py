"""`waterclock skip`: skips batches and records the reason."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Because, Env, Now, ProjectDir, Yes

OneTable = Annotated[str, typer.Argument(metavar="TABLE", help="The table.", autocompletion=tables_from)]
Range = Annotated[
    str, typer.Argument(metavar="LABELS", help="A label or a range of them: 2013-01-05, 20130105..20130107.")
]


def skip(  # noqa: PLR0913 - each is an option
    table: OneTable,
    labels: Range,
    *,
    why: Because,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Skip batches: readers continue without their rows. `retry TABLE LABELS` undoes it."""
    from waterclock.cli.actions.skip import skip_batches

    skip_batches(project, env, (table, labels), why, now, yes=yes, is_json=json)
