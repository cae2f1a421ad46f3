"""`waterclock openlineage`: shows where lineage events are sent and how many are pending, and sends them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir


class LineageAction(StrEnum):
    """The actions of the `openlineage` command."""

    SHOW = "show"
    SEND = "send"


What = Annotated[
    LineageAction,
    typer.Argument(
        metavar="[show|send]",
        help="show, the default, shows where events are sent and how many are pending; send sends them now.",
    ),
]
Again = Annotated[
    bool, typer.Option("--again", help="send: send all past events again, with the same ids, to a new server.")
]


def openlineage(
    what: What = LineageAction.SHOW,
    *,
    again: Again = False,
    project: ProjectDir = HERE,
    env: Env = None,
    json: AsJson = False,
) -> None:
    """Show where lineage events are sent and how many are pending, or send the pending ones."""
    from waterclock.cli.actions.openlineage import send_events, show_lineage_state

    if again and what is not LineageAction.SEND:
        raise typer.BadParameter("--again is only for send")
    code = (
        send_events(project, env, again=again, is_json=json)
        if what is LineageAction.SEND
        else show_lineage_state(project, env, is_json=json)
    )
    raise typer.Exit(code)
