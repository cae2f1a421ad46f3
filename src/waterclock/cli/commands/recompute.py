"""`waterclock recompute`: makes done labels again from their inputs, and runs the batches that depend on them."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, AskOnly, Because, Env, Now, ProjectDir, SomeLabels, Which, Yes

Behind = Annotated[
    bool,
    typer.Option("--behind", help="Only older states that are behind: their inputs were restated since."),
]


def recompute(  # noqa: PLR0913 - each is an option
    selection: Which,
    labels: SomeLabels = None,
    *,
    behind: Behind = False,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    why: Because = "",
    no_run: AskOnly = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Make done labels again from their inputs, then exactly the batches that depend on them.

    It shows the affected batches and asks before it starts.
    """
    from waterclock.batches.ledger_snapshot import FOLLOW
    from waterclock.cli.actions.restate import RestateCommand, restate_batches
    from waterclock.operations.restating import done_labels, find_behind_labels

    wish = RestateCommand("recompute", "recompute", selection, labels, done_labels, why)
    if behind:
        wish = RestateCommand("recompute", FOLLOW, selection, labels, find_behind_labels, why)
    raise typer.Exit(restate_batches(project, env, wish, now, yes=yes, is_run=not no_run, is_json=json))
