"""`waterclock plan`: shows which batches would run now and why the others wait."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.exit_codes import OF_PLAN, ExitCode
from waterclock.cli.options import HERE, AsJson, Env, LabelRange, Now, ProjectDir, RestateLimit, Selected

Detailed = Annotated[
    bool,
    typer.Option(
        "--detailed-exitcode",
        help=OF_PLAN,
    ),
]


def plan(  # noqa: PLR0913 - each is an option
    selection: Selected = None,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    labels: LabelRange = None,
    at_most: RestateLimit = None,
    detailed_exitcode: Detailed = False,
    json: AsJson = False,
) -> None:
    """Show which batches are due, which are waiting and what they wait for. Changes nothing.

    In a branch, show which tables have changed code, and which labels a run makes.
    """
    from waterclock.cli.actions.plan import plan_selection
    from waterclock.cli.views.json import print_answer
    from waterclock.cli.views.plan import exit_code
    from waterclock.cli.views.theme import console
    from waterclock.operations.project_opening import open_project, open_read_only

    opened = open_project(project, env)
    if opened.bases:
        from waterclock.cli.actions.branch_run import plan_branch

        plan_branch(project, opened.env, selection, labels, is_json=json)
        raise typer.Exit(ExitCode.DONE)
    with open_read_only(project, env, now) as at:
        made = plan_selection(at, selection, labels, at_most)
    if json:
        print_answer(made.to_answer())
    else:
        made.draw(console())
    raise typer.Exit(exit_code(made.plan) if detailed_exitcode else ExitCode.DONE)
