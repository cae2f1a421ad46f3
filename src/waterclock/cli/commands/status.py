"""`waterclock status`: shows the grid of tables and timelabels."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, LabelRange, Now, ProjectDir, Selected

By = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="PERIOD",
        help="The period of a column: hour, day, week, month, quarter, year. By default mostly day; longer if there "
        "are too many.",
    ),
]


Behind = Annotated[
    bool,
    typer.Option("--lag", help="Show how far each table is behind, in time, labels and rows, instead of the grid."),
]


def status(  # noqa: PLR0913 - a command has as many options
    selection: Selected = None,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    labels: LabelRange = None,
    by: By = None,
    lag: Behind = False,
    json: AsJson = False,
) -> None:
    """Show the grid of tables and timelabels: which batches are done, due, failed, blocked or stale."""
    from waterclock.cli.views.json import print_answer
    from waterclock.cli.views.status import print_lag, print_status, status_answer
    from waterclock.cli.views.status_input import collect_lag, collect_status_input
    from waterclock.cli.views.theme import console
    from waterclock.operations.project_opening import open_read_only

    to = console()
    with open_read_only(project, env, now) as at:
        selected = (selection, labels, by)
        data = collect_lag(at, *selected) if lag else collect_status_input(at, *selected, to.width, is_drawn=not json)
        if json:
            print_answer(status_answer(data))
        elif lag:
            print_lag(to, data, at.zone)
        else:
            print_status(to, data, at.zone)
