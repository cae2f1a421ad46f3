"""`waterclock drop`: removes the oldest windows of a table and records the reason."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Because, Env, Now, ProjectDir, Yes

Windows = Annotated[
    str,
    typer.Argument(metavar="TABLE@..LABEL", help="The table, and the last label to drop.", autocompletion=tables_from),
]


def drop(
    which: Windows,
    *,
    why: Because,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Drop the oldest windows of a table, as RETAIN does. Tables that were made from them stay as they are."""
    from waterclock.cli.actions.drop import drop_windows

    drop_windows(project, env, which, why, now, yes=yes, is_json=json)
