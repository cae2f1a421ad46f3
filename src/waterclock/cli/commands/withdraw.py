"""`waterclock withdraw`: take back what was asked for before a runner does it."""

from __future__ import annotations

from waterclock.cli.options import HERE, AsJson, Because, Env, ProjectDir, SomeLabels, Which


def withdraw(
    selection: Which,
    labels: SomeLabels = None,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    why: Because = "",
    json: AsJson = False,
) -> None:
    """Take back what recompute, recollect or backfill asked for and that no runner has begun."""
    from waterclock.cli.actions.withdraw import withdrawn

    withdrawn(project, env, (selection, labels), why=why, is_json=json)
