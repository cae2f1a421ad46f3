"""`waterclock release`: makes held batches visible, and records the reason."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Env, Now, ProjectDir, SomeLabels, Yes

OfTable = Annotated[
    str,
    typer.Argument(metavar="TABLE[@LABELS]", help="The table and its labels.", autocompletion=tables_from),
]
Reason = Annotated[
    str, typer.Option("--why", "--because", metavar="TEXT", help="The reason; it is kept with your name.")
]


def release(  # noqa: PLR0913 - each is an option
    which: OfTable,
    labels: SomeLabels = None,
    *,
    because: Reason,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Release held batches as they were sealed. Batches that waited for them become due."""
    if labels is not None:
        if "@" in which:
            raise typer.BadParameter(f"labels are given twice: in {which} and as {labels}")
        which = f"{which}@{labels}"
    from waterclock.cli.actions.release import release_batches

    raise typer.Exit(release_batches(project, env, which, because, now, yes=yes, is_json=json))
