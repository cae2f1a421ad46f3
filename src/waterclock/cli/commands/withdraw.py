"""`waterclock withdraw`: cancels requests before a runner starts them."""

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
    """Cancel requests of recompute, recollect or backfill that no runner has started yet."""
    from waterclock.cli.actions.withdraw import run_withdraw

    run_withdraw(project, env, (selection, labels), why=why, is_json=json)
