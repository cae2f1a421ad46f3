"""Reads access tokens and recorded accesses."""

from __future__ import annotations

import json
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.access import Access, AccessToken
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import AnyRow, access_tokens, accesses
from waterclock.permissions.access_tokens import SEND_TO
from waterclock.permissions.users_and_roles import Right

_BY_DIGEST = sa.select(access_tokens).where(access_tokens.c.digest == sa.bindparam("which"))
_ALL = sa.select(access_tokens).order_by(access_tokens.c.created_at, access_tokens.c.name)


def list_tokens(database: LedgerDatabase) -> tuple[AccessToken, ...]:
    """Return all tokens, oldest first, also those that have ended."""
    with database.read() as connection:
        return tuple(map(_build_token, connection.execute(_ALL)))


def find_token(database: LedgerDatabase, digest: str) -> AccessToken | None:
    """Return the token with this digest if it is valid now, else None."""
    with database.read() as connection:
        row = connection.execute(_BY_DIGEST, {"which": digest}).first()
    found = None if row is None else _build_token(row)
    return found if found is not None and found.is_valid_at(database.clock()) else None


def list_accesses(
    database: LedgerDatabase, *, since: datetime | None, who: str | None, most: int
) -> tuple[Access, ...]:
    """Return at most `most` recorded accesses, newest first. `since` and `who` restrict them, if given."""
    query = sa.select(accesses).order_by(accesses.c.at.desc(), accesses.c.id.desc()).limit(most)
    if since is not None:
        query = query.where(accesses.c.at >= since)
    if who is not None:
        query = query.where(accesses.c.who == who)
    with database.read() as connection:
        return tuple(map(_build_access, connection.execute(query)))


def _build_token(row: AnyRow) -> AccessToken:
    scope: list[str] = json.loads(row.rights)
    streams = tuple(each.removeprefix(SEND_TO) for each in scope if each.startswith(SEND_TO))
    rights = frozenset(Right.SEND if each.startswith(SEND_TO) else Right(each) for each in scope)
    return AccessToken(
        row.name, row.digest, row.user_name, rights, row.created_at, row.created_by, row.until, row.revoked_at,
        row.revoked_by, streams,
    )  # fmt: skip


def _build_access(row: AnyRow) -> Access:
    return Access(
        row.who, row.sign_in, row.action, tuple(json.loads(row.tables)), row.query, row.address, row.agent,
        row.refusal, row.times, row.at,
    )  # fmt: skip
