"""`waterclock recollect`: reads the sources of done labels again, and runs the batches that depend on them."""

from __future__ import annotations

import typer

from waterclock.cli.options import HERE, AsJson, AskOnly, Because, Env, Now, ProjectDir, SomeLabels, Which, Yes


def recollect(  # noqa: PLR0913 - each is an option
    selection: Which,
    labels: SomeLabels = None,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    why: Because = "",
    no_run: AskOnly = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Read the sources of done labels again, and run the batches that depend on them.

    It shows the affected batches and asks before it starts.
    """
    from waterclock.cli.actions.restate import RestateCommand, restate_batches
    from waterclock.operations.restating import labels_of_sources

    wish = RestateCommand("recollect", "recollect", selection, labels, labels_of_sources, why)
    raise typer.Exit(restate_batches(project, env, wish, now, yes=yes, is_run=not no_run, is_json=json))
