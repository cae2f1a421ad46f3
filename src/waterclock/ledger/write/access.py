"""Records access tokens, and the actions that users took or were refused.

These writes do not concern batches, so they leave the ledger's sequence unchanged. The records are not exported: an old
export would restore revoked tokens.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.access import Access, AccessToken
from waterclock.errors import WaterclockError
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import access_tokens, accesses
from waterclock.permissions.access_tokens import SEND_TO
from waterclock.permissions.users_and_roles import Right
from waterclock.similar_names import did_you_mean

_BY_NAME = sa.select(access_tokens.c.name, access_tokens.c.revoked_at)
_REVOKE = (
    sa.update(access_tokens)
    .where(access_tokens.c.name == sa.bindparam("which"), access_tokens.c.revoked_at.is_(None))
    .values(revoked_at=sa.bindparam("at"), revoked_by=sa.bindparam("who"))
)
_FORGET_TOKENS = sa.delete(access_tokens).where(
    sa.func.coalesce(access_tokens.c.revoked_at, access_tokens.c.until) < sa.bindparam("before"),
    access_tokens.c.until < sa.bindparam("before"),
)
_FORGET = sa.delete(accesses).where(accesses.c.at < sa.bindparam("before"))


def create_token(  # noqa: PLR0913 - by name
    database: LedgerDatabase,
    name: str,
    digest: str,
    *,
    user: str,
    rights: Collection[Right],
    until: datetime,
    who: str,
    streams: Sequence[str] = (),
) -> AccessToken:
    """Record a token by its digest, and return it. Raises E942 if there was a token of this name already."""
    with database.write_unordered() as (connection, at):
        if name in {row.name for row in connection.execute(_BY_NAME)}:
            raise WaterclockError(
                "E942", f"there is a token {name} already",
                why="names of revoked and expired tokens are not used again",
                fix="choose another name; `waterclock token list` shows all",
            )  # fmt: skip
        token = AccessToken(name, digest, user, frozenset(rights), at, who, until, streams=tuple(streams))
        values = {
            "name": name, "digest": digest, "user_name": user, "rights": json.dumps(_scope(token)),
            "created_at": at, "created_by": who, "until": until,
        }  # fmt: skip
        connection.execute(sa.insert(access_tokens), values)
        return token


def _scope(token: AccessToken) -> list[str]:
    """Return the rights of a token as stored. `send` is replaced by the streams to which it is limited, if any."""
    plain = [right for right in token.rights if right is not Right.SEND or not token.streams]
    return sorted((*plain, *(f"{SEND_TO}{stream}" for stream in token.streams)))


def revoke_token(database: LedgerDatabase, name: str, *, who: str) -> None:
    """End a token now. Raises E943 for an unknown token, or one that was revoked before."""
    with database.write_unordered() as (connection, at):
        known = {row.name: row.revoked_at for row in connection.execute(_BY_NAME)}
        if name not in known:
            raise WaterclockError(
                "E943", f"there is no token {name}", why="`waterclock token list` shows all tokens",
                fix=did_you_mean(name, known, otherwise="check the name"),
            )  # fmt: skip
        if known[name] is not None:
            raise WaterclockError(
                "E943", f"the token {name} is already revoked", fix="nothing: it has no effect any more"
            )
        connection.execute(_REVOKE, {"which": name, "at": at, "who": who})


def record_accesses(database: LedgerDatabase, found: Sequence[Access]) -> None:
    """Record accesses. The current time is used for those without an instant."""
    with database.write_unordered() as (connection, at):
        connection.execute(
            sa.insert(accesses),
            [
                {
                    "at": each.at or at, "who": each.who, "sign_in": each.sign_in, "action": each.action,
                    "tables": json.dumps(each.tables), "query": each.query, "address": each.address,
                    "agent": each.agent, "refusal": each.refusal, "times": each.times,
                }
                for each in found
            ],
        )  # fmt: skip


def forget_accesses(database: LedgerDatabase, before: datetime) -> int:
    """Delete the accesses before an instant and the tokens that expired before it. Return the number of accesses."""
    with database.write_unordered() as (connection, _):
        connection.execute(_FORGET_TOKENS, {"before": before})
        return connection.execute(_FORGET, {"before": before}).rowcount
