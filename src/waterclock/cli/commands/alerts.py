"""`waterclock alerts`: lists open alerts, tests targets, acknowledges alerts and sends pending messages."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir


class AlertAction(StrEnum):
    """The actions of the `alerts` command."""

    LIST = "list"
    TEST = "test"
    ACKNOWLEDGE = "acknowledge"
    SEND = "send"


What = Annotated[
    AlertAction,
    typer.Argument(
        metavar="[list|test|acknowledge|send]",
        help="list, the default, shows open alerts and pending messages; test sends a message to each target; "
        "acknowledge ends the repeats of alerts; send checks for alerts and sends pending messages.",
    ),
]
Which = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[WHICH]", help="test: targets, by default all; acknowledge: the numbers of alerts.",
        show_default=False,
    ),
]  # fmt: skip
Why = Annotated[
    str | None, typer.Option("--why", metavar="TEXT", help="acknowledge: the reason; it is kept with your name.")
]


def alerts(
    what: What = AlertAction.LIST,
    which: Which = None,
    *,
    why: Why = None,
    project: ProjectDir = HERE,
    env: Env = None,
    json: AsJson = False,
) -> None:
    """List open alerts; with an argument, test the targets, acknowledge alerts or send pending messages."""
    from waterclock.cli.actions.alerts import acknowledge_alerts, list_alerts, send_alerts, send_test_messages

    if which and what in {AlertAction.LIST, AlertAction.SEND}:
        raise typer.BadParameter(f"{what} takes no other argument")
    if (why is not None) != (what is AlertAction.ACKNOWLEDGE):
        raise typer.BadParameter("acknowledge needs --why '…'; no other action takes it")
    if what is AlertAction.TEST:
        code = send_test_messages(project, env, which or [], is_json=json)
    elif what is AlertAction.ACKNOWLEDGE:
        code = acknowledge_alerts(project, env, which or [], why or "", is_json=json)
    elif what is AlertAction.SEND:
        code = send_alerts(project, env, is_json=json)
    else:
        code = list_alerts(project, env, is_json=json)
    raise typer.Exit(code)
