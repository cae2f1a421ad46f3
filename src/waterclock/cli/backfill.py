"""`waterclock backfill`: make the labels of a range that are not done, those that nobody needs included."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, Now, ProjectDir, Yes

Which = Annotated[str, typer.Argument(metavar="SELECTION", help="Tables, as for run: marts.delays, +marts.delays, …")]
Range = Annotated[str, typer.Argument(metavar="LABELS", help="From and to, both included: 2013-01-01..2013-01-07.")]


def backfill(
    selection: Which,
    labels: Range,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Make the missing labels of a range, oldest first; shows plan and cost and asks before it starts."""
    from waterclock.cli.backfilling import backfilled

    raise typer.Exit(backfilled(project, env, (selection, labels), now, yes=yes, is_json=json))
