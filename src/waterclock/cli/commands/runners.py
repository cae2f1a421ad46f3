"""`waterclock runners`: who works on the project, and what each holds."""

from __future__ import annotations

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir


def runners(project: ProjectDir = HERE, env: Env = None, *, json: AsJson = False) -> None:
    """List the runners of the project: who each is, what it makes now, since when, and whether it still lives."""
    from waterclock.cli.views.json import print_json
    from waterclock.cli.views.runners import print_runners, runners_json, see_runners
    from waterclock.cli.views.theme import console
    from waterclock.operations.opening import open_project

    seen = see_runners(open_project(project, env))
    if json:
        print_json(runners_json(seen))
    else:
        print_runners(console(), seen)
