"""`waterclock runners`: lists the runners of the project and the batches that each is running."""

from __future__ import annotations

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir


def runners(project: ProjectDir = HERE, env: Env = None, *, json: AsJson = False) -> None:
    """List the runners of the project: each one's user, its current batches, since when, and whether it is alive."""
    from waterclock.cli.views.json import print_answer
    from waterclock.cli.views.runners import print_runners, read_runner_list, runners_answer
    from waterclock.cli.views.theme import console
    from waterclock.operations.project_opening import open_project

    seen = read_runner_list(open_project(project, env))
    if json:
        print_answer(runners_answer(seen))
    else:
        print_runners(console(), seen)
