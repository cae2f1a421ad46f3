"""Closes a ledger for what is to go on in another database, or opens it again where that failed."""

from __future__ import annotations

import sqlalchemy as sa

from waterclock.batches.facts import OpenClaim
from waterclock.ledger import refusals
from waterclock.ledger.store.database import Database
from waterclock.ledger.store.schema import IS_OPEN, claims, ledger

_OPEN = sa.select(claims.c.number, claims.c.runner, claims.c.lease_until).where(IS_OPEN)
_MOVED = sa.select(ledger.c.moved_to)
_SET = sa.update(ledger).values(moved_to=sa.bindparam("to"))


def refuse_moved(database: Database) -> None:
    """Refuse to look at a ledger that goes on elsewhere.

    Raises  E425
    """
    to = _moved_to(database)
    if to is not None:
        raise refusals.moved(database.url, to)


def _moved_to(database: Database) -> str | None:
    with database.read() as connection:
        found: str | None = connection.execute(_MOVED).scalar()
        return found


def close_for(database: Database, to: str, *, who: str) -> None:
    """Let nobody write here any more; free where it was closed for the same place before.

    Raises  E425 where it was moved elsewhere, E426 where claims are open
    """
    if _moved_to(database) == to:
        return
    with database.write() as write:
        # of one whose lease is out nothing can be recorded here any more; whoever takes it over does so elsewhere
        holders = [
            OpenClaim(row.number, (), row.runner, row.lease_until)
            for row in write.execute(_OPEN)
            if row.lease_until >= write.at
        ]
        if holders:
            raise refusals.in_use(database.url, holders)
        write.log("ledger moved", who=who, data={"to": to})
        write.execute(_SET, {"to": to})


def require_closed_for(database: Database, to: str) -> None:
    """See that nobody writes here still, nor wrote since it was closed.

    Raises  E426 where it was opened again
    """
    if _moved_to(database) != to:
        raise refusals.opened_again(database.url)


def open_again(database: Database) -> None:
    """Let it be written again: what it was to be moved to was not made."""
    with database.write(even_moved=True) as write:
        write.execute(_SET, {"to": None})
