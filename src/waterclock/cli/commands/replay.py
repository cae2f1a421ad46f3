"""`waterclock replay`: makes the batches that have quarantined rows again."""

from __future__ import annotations

import typer

from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.cli.options import HERE, AsJson, AskOnly, Because, Env, Now, ProjectDir, SomeLabels, Which, Yes


def replay(  # noqa: PLR0913 - each is an option
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
    """Make batches with quarantined rows again, by the current rules. Rows that pass are added to their own label."""
    from waterclock.cli.actions.restate import RestateCommand, restate_batches
    from waterclock.operations.replaying import find_replayable_labels

    wish = RestateCommand("replay", RECOMPUTE, selection, labels, find_replayable_labels, why, NOTHING)
    raise typer.Exit(restate_batches(project, env, wish, now, yes=yes, is_run=not no_run, is_json=json))


NOTHING = "no rows there were quarantined by older rules"
