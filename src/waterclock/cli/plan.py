"""`waterclock plan`: what would run now, and why the rest waits."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, LabelRange, Now, ProjectDir, Selected

Detailed = Annotated[
    bool,
    typer.Option(
        "--detailed-exitcode",
        help="Leave with 0 where nothing is due, 10 where work is due, 11 where something is failed, held or blocked.",
    ),
]


def plan(
    selection: Selected = None,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    labels: LabelRange = None,
    detailed_exitcode: Detailed = False,
    json: AsJson = False,
) -> None:
    """Show what is due, what waits and for what; changes nothing."""
    from collections import Counter

    from waterclock.cli.answers import print_json
    from waterclock.cli.first_windows import not_begun
    from waterclock.cli.look import console
    from waterclock.cli.opening import reading, selected
    from waterclock.cli.plan_view import exit_code, plan_json, print_plan
    from waterclock.planner.states import quiet

    with reading(project, env, now) as at:
        found, by_table = selected(at.flow, selection, labels)
        made = at.planner.plan(at.snapshot, at.now, only=found.tables, labels=by_table)
        whole = made if not by_table else at.planner.plan(at.snapshot, at.now, only=found.tables)
        planned = Counter(batch.table for batch in whole.batches) + Counter(whole.left_out)
        silent = {
            name: it
            for name, it in quiet(at.planner, at.snapshot, at.now, planned).items()
            if name in found.tables and not by_table
        }
        waiting = not_begun(at, found.tables)
        if json:
            print_json(plan_json(made, at.flow, at.project.env, silent, waiting))
        else:
            print_plan(console(), made, at.flow, at.zone, silent, waiting)
    raise typer.Exit(exit_code(made) if detailed_exitcode else 0)
