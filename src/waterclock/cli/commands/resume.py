"""`waterclock resume`: ends a pause."""

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
    """Resume paused tables, or end the pause of the whole project.

    Tables that were paused by name stay paused until they are resumed by name.
    """
    from waterclock.cli.actions.pause import resume_tables

    resume_tables(project, env, selection, why, is_json=json)
