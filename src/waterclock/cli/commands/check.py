"""`waterclock check`: reports all errors of a project at once, without Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.options import HERE, AsJson, Env, ProjectDir

Connect = Annotated[
    bool,
    typer.Option(
        "--connect", help="Also try ledger, storage, each source and destination, and Spark. Changes nothing."
    ),
]


def check(
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    connect: Connect = False,
    json: AsJson = False,
) -> None:
    """Report every error in the project, with its location, its cause and a fix."""
    from waterclock.cli.views.check import check_project, print_checked
    from waterclock.cli.views.json import print_answer
    from waterclock.cli.views.theme import console

    found = check_project(project, env, connect=connect)
    if not (connect and found.project):
        if json:
            print_answer(found.to_answer())
        else:
            print_checked(console(), found)
        raise typer.Exit(ExitCode.of_failure(found.errors))
    from waterclock.cli.views.connection_results import print_probes
    from waterclock.engine.connection_checks import probes

    if json:
        tried = list(probes(found.project))
        print_answer(found.to_answer(tried))
    else:
        print_checked(console(), found)
        tried = print_probes(console(), probes(found.project))
    raise typer.Exit(ExitCode.of_failure(any(probe.error is not None for probe in tried)))
