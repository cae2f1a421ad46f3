"""`waterclock check`: everything that is wrong with a project, at once and without Spark."""

from __future__ import annotations

import typer

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir


def check(
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    json: AsJson = False,
) -> None:
    """Report all that is wrong with the project: each error with its place, its cause and its mend."""
    from waterclock.cli.views.check import checked, print_checked
    from waterclock.cli.views.json import print_json
    from waterclock.cli.views.theme import console

    found = checked(project, env)
    if json:
        print_json(found.to_json())
    else:
        print_checked(console(), found)
    raise typer.Exit(1 if found.errors else 0)
