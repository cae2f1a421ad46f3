"""`waterclock session`: lists and ends the sessions of browsers at the running pages."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from waterclock.cli.commands.ui import Listen
from waterclock.cli.options import AsJson


class SessionAction(StrEnum):
    """The actions of the `session` command."""

    LIST = "list"
    REVOKE = "revoke"


What = Annotated[
    SessionAction,
    typer.Argument(metavar="[list|revoke]", help="list, the default, shows the sessions; revoke ends one or all."),
]
Number = Annotated[
    int | None, typer.Argument(metavar="[NUMBER]", help="revoke: the session to end.", show_default=False)
]
All = Annotated[bool, typer.Option("--all", help="revoke: end all sessions.")]


def session(
    what: What = SessionAction.LIST,
    number: Number = None,
    *,
    everyone: All = False,
    listen: Listen = "8899",
    json: AsJson = False,
) -> None:
    """List the sessions of the pages that this user serves; with an argument, end sessions."""
    from waterclock.cli.actions.session import list_sessions, revoke_sessions

    if (what is SessionAction.REVOKE) != ((number is not None) or everyone) or (everyone and number is not None):
        raise typer.BadParameter("revoke takes the number of a session, or --all; list takes neither")
    if what is SessionAction.REVOKE:
        revoke_sessions(listen, number, is_json=json)
    else:
        list_sessions(listen, is_json=json)
