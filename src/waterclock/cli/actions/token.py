"""Creates, lists and revokes access tokens. The ledger stores only their digests."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from rich.table import Table

from waterclock.batches.access import Access, AccessToken
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.connectors.receiver.connector import streams_of
from waterclock.engine.ledger_opening import open_ledger
from waterclock.engine.run_opening import open_workplace
from waterclock.engine.run_settings import RunSettings
from waterclock.operations.project_opening import no_ledger_error, open_project, zone_of
from waterclock.permissions.access_tokens import (
    digest_of_token,
    new_access_token,
    require_end,
    require_name,
    rights_of_token,
    streams_of_token,
)
from waterclock.permissions.users_and_roles import SignIn
from waterclock.timelabel.zone import parse_instant


def create_token(
    folder: Path, env: str | None, name: str, user: str, *, may: str | None, until: str | None, is_json: bool
) -> None:
    """Create a token and print it once. Raises E942 if it cannot be created, E106 for an invalid `until`."""
    project = open_project(folder, env)
    require_name(name)
    may, streams = streams_of_token(may, streams_of(project.flow))
    rights = rights_of_token(may, user, project.access)
    value, who = new_access_token(), RunSettings().who
    with open_workplace(project) as work:
        end = None if until is None else parse_instant(until, zone_of(project.flow))
        end = require_end(end, work.ledger.now())
        made = work.ledger.access.create_token(
            name, digest_of_token(value) or "", user=user, rights=rights, until=end, who=who, streams=streams
        )
        work.ledger.access.record([Access(who, SignIn.COMMAND, f"create token {name} for {user}")])
    if is_json:
        from waterclock.json_models.access import NewTokenAnswer, TokenPart

        print_answer(NewTokenAnswer(token=value, created=TokenPart.model_validate(made)))
        return
    to = console(stderr=True)
    to.print(f"token {name} for {user}: {_format_rights(made)}, until {_format_time(made.until)}", soft_wrap=True)
    to.print("it is stored nowhere and not shown again", soft_wrap=True)
    print(value)  # noqa: T201 - without formatting, for scripts


def list_tokens(folder: Path, env: str | None, *, is_json: bool) -> None:
    """Print all tokens without their values."""
    ledger = open_ledger(open_project(folder, env))
    found: tuple[AccessToken, ...] = ()
    if ledger is not None:
        with ledger:
            found, now = ledger.access.list_tokens(), ledger.now()
    if is_json:
        from waterclock.json_models.access import TokenPart, TokensAnswer

        print_answer(TokensAnswer(tokens=[TokenPart.model_validate(each) for each in found]))
        return
    if not found:
        console().print("there is no token; `waterclock token create NAME --for USER` creates one", soft_wrap=True)
        return
    table = Table("token", "user", "rights", "created", "ends", box=None)
    for each in found:
        created = f"{_format_time(each.created_at)} by {each.created_by}"
        table.add_row(each.name, each.user, _format_rights(each), created, _format_end(each, now))
    console().print(table)


def revoke_token(folder: Path, env: str | None, name: str, *, is_json: bool) -> None:
    """End a token. Raises E412 before the first run, E943 for an unknown token."""
    ledger, who = open_ledger(open_project(folder, env)), RunSettings().who
    if ledger is None:
        raise no_ledger_error()
    with ledger:
        ledger.access.revoke_token(name, who=who)
        ledger.access.record([Access(who, SignIn.COMMAND, f"revoke token {name}")])
    if is_json:
        from waterclock.json_models.access import RevokedTokenAnswer

        print_answer(RevokedTokenAnswer(revoked=name))
        return
    console().print(f"revoked: {name}; servers refuse it within five seconds", soft_wrap=True)


def _format_rights(token: AccessToken) -> str:
    limited = (f"send to {stream}" for stream in token.streams)
    return ", ".join(sorted((*(each for each in token.rights if each != "send" or not token.streams), *limited)))


def _format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%MZ}"


def _format_end(token: AccessToken, now: datetime) -> str:
    if token.revoked_at is not None:
        return f"revoked {_format_time(token.revoked_at)} by {token.revoked_by}"
    return f"{'ended ' if now >= token.until else ''}{_format_time(token.until)}"
