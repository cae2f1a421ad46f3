"""Closes a ledger that moves to another database, or reopens it if the move failed."""

from __future__ import annotations

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import OpenClaim
from waterclock.ledger import ledger_errors
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import IS_OPEN, claims, ledger

_OPEN = sa.select(claims.c.number, claims.c.runner, claims.c.lease_until).where(IS_OPEN)
_MOVED = sa.select(ledger.c.moved_to)
_SET = sa.update(ledger).values(moved_to=sa.bindparam("to"))


def require_not_moved(database: LedgerDatabase) -> None:
    """Raise E425 if the ledger was moved."""
    to = _read_new_location(database)
    if to is not None:
        raise ledger_errors.moved_ledger_error(database.url, to)


def _read_new_location(database: LedgerDatabase) -> str | None:
    with database.read() as connection:
        found: str | None = connection.execute(_MOVED).scalar()
        return found


def close_for(database: LedgerDatabase, to: str, *, who: str) -> None:
    """Close the ledger for all writes, to move it to `to`. Raises E425 if it moved elsewhere, E426 for open claims."""
    if _read_new_location(database) == to:
        return
    with database.write() as write:
        # claims with an expired lease cannot be recorded here any more; they are taken over in the new ledger
        holders = [
            OpenClaim(row.number, (), row.runner, row.lease_until)
            for row in write.execute(_OPEN)
            if row.lease_until >= write.at
        ]
        if holders:
            raise ledger_errors.ledger_in_use_error(database.url, holders)
        write.log("ledger moved", who=who, data={"to": to})
        write.execute(_SET, {"to": to})


def require_closed_for(database: LedgerDatabase, to: str) -> None:
    """Check that the ledger is still closed for its move to `to`, and so unchanged. Raises E426 if it was reopened."""
    if _read_new_location(database) != to:
        raise ledger_errors.concurrent_move_error(database.url)


def unlock_ledger(database: LedgerDatabase) -> None:
    """Allow writes to the ledger again, because its move was not completed."""
    with database.write(even_moved=True) as write:
        write.execute(_SET, {"to": None})
