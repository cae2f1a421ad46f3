"""`waterclock close`: closes the books of a window by hand and records the reason."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.cli.completion import tables_from
from waterclock.cli.options import HERE, AsJson, Because, Env, Now, ProjectDir

OneWindow = Annotated[
    str,
    typer.Argument(metavar="TABLE@LABEL", help="The table and the window's label.", autocompletion=tables_from),
]


def close(
    window: OneWindow,
    *,
    why: Because,
    project: ProjectDir = HERE,
    env: Env = None,
    now: Now = None,
    json: AsJson = False,
) -> None:
    """Close the books of a window by hand, where its CLOSE WHEN contains closed_by_hand().

    The next run makes the window from the slices that have arrived.
    """
    from waterclock.cli.actions.close import close_window

    close_window(project, env, window, why, now, is_json=json)
