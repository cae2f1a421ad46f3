"""`waterclock backfill`: runs the missing labels of a range, or the labels that ran under older code."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, Now, ProjectDir, Which, Yes

Range = Annotated[
    str | None,
    typer.Argument(
        metavar="LABELS",
        help="From and to, both included: 2013-01-01..2013-01-07. With --changed: by default all.",
        show_default=False,
    ),
]
Changed = Annotated[
    bool, typer.Option("--changed", help="Make done labels again that ran with other code than the current one.")
]
NewestFirst = Annotated[
    bool, typer.Option("--newest-first", help="Make the newest labels first, where the table allows it.")
]


def backfill(  # noqa: PLR0913 - each is an option
    selection: Which,
    labels: Range = None,
    *,
    changed: Changed = False,
    newest_first: NewestFirst = False,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Run the missing labels of a range, oldest first. It shows the plan and its cost, and asks before it starts."""
    if changed and newest_first:
        raise typer.BadParameter("labels with older code are made oldest first", param_hint="--newest-first")
    if changed:
        from waterclock.cli.actions.restate import RestateCommand, restate_batches
        from waterclock.operations.restating import labels_of_older_code

        wish = RestateCommand("backfill", "recompute", selection, labels, labels_of_older_code)
        raise typer.Exit(restate_batches(project, env, wish, now, yes=yes, is_run=True, is_json=json))
    if labels is None:
        raise typer.BadParameter("name the labels: 2013-01-01..2013-01-07", param_hint="LABELS")
    from waterclock.cli.actions.backfill import run_backfill

    raise typer.Exit(
        run_backfill(project, env, (selection, labels), now, newest_first=newest_first, yes=yes, is_json=json)
    )
