"""`waterclock token`: creates, lists and revokes access tokens of declared users."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from waterclock.cli.options import HERE, AsJson, Env, ProjectDir


class TokenAction(StrEnum):
    """The actions of the `token` command."""

    CREATE = "create"
    LIST = "list"
    REVOKE = "revoke"


What = Annotated[
    TokenAction,
    typer.Argument(
        metavar="[list|create|revoke]",
        help="list, the default, shows all tokens; create prints a new one once; revoke ends one.",
    ),
]
Name = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="create, revoke: the name of the token.", show_default=False),
]
For = Annotated[
    str | None, typer.Option("--for", metavar="USER", help="create: the user who has its rights.", show_default=False)
]
May = Annotated[
    str | None,
    typer.Option(
        "--may",
        metavar="RIGHTS",
        help="create: its rights, as look,send:door/orders. Default: all of the user.",
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="create: when it ends. Default: in 90 days.")
]


def token(  # noqa: PLR0913 - the options of a command
    what: What = TokenAction.LIST,
    name: Name = None,
    *,
    user: For = None,
    may: May = None,
    until: Until = None,
    project: ProjectDir = HERE,
    env: Env = None,
    json: AsJson = False,
) -> None:
    """List access tokens; with an argument, create a token for a declared user, or revoke one."""
    from waterclock.cli.actions.token import create_token, list_tokens, revoke_token

    if (name is None) != (what is TokenAction.LIST):
        raise typer.BadParameter(f"{what} takes {'no' if what is TokenAction.LIST else 'a'} name")
    if (user is None) != (what is not TokenAction.CREATE):
        raise typer.BadParameter("create needs --for USER; no other action takes it", param_hint="--for")
    if what is not TokenAction.CREATE and (may or until):
        raise typer.BadParameter("only create takes --may and --until")
    if what is TokenAction.CREATE:
        create_token(project, env, name or "", user or "", may=may, until=until, is_json=json)
    elif what is TokenAction.REVOKE:
        revoke_token(project, env, name or "", is_json=json)
    else:
        list_tokens(project, env, is_json=json)
