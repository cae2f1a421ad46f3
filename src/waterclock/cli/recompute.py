"""`waterclock recompute`: make done labels again from what they read, and what follows from that."""

from __future__ import annotations

import typer

from waterclock.cli.options import HERE, AsJson, AskOnly, Env, Now, ProjectDir, SomeLabels, Which, Yes


def recompute(  # noqa: PLR0913 - each is an option
    selection: Which,
    labels: SomeLabels = None,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    no_run: AskOnly = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Make done labels again from what they read, and then exactly what rests on them; shows the ripple and asks."""
    from waterclock.cli.restating import Wish, done_labels, restated

    wish = Wish("recompute", "recompute", selection, labels, done_labels)
    raise typer.Exit(restated(project, env, wish, now, yes=yes, is_run=not no_run, is_json=json))
