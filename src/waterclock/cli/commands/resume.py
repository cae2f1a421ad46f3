"""`waterclock resume`: take a pause back."""

from __future__ import annotations

from waterclock.cli.commands.pause import SomeTables
from waterclock.cli.options import HERE, AsJson, Because, Env, ProjectDir


def resume(
    selection: SomeTables = None,
    *,
    project: ProjectDir = HERE,
    env: Env = None,
    why: Because = "",
    json: AsJson = False,
) -> None:
    """Take back the pause of some tables, or that of all; those paused by name stay so till they are named."""
    from waterclock.cli.actions.pause import resumed

    resumed(project, env, selection, why, is_json=json)
