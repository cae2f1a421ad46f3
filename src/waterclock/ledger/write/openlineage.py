"""Records the last event that was sent to OpenLineage. Concurrent senders take turns by locking one row.

These writes do not concern batches, so they leave the ledger's sequence unchanged and wake no runner.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from waterclock.batches.lease_times import is_pending
from waterclock.batches.run_events import LEFT_OUT, LineageEvent
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import lineage_sent

_PROGRESS = sa.select(lineage_sent)
_FIRST = sa.insert(lineage_sent)
_TAKE_TURN = sa.update(lineage_sent).values(id=lineage_sent.c.id)
_TAKE = sa.update(lineage_sent).values(taken_until=sa.bindparam("until"))
# a slow sender whose turn has expired never resets the progress of the next sender
_SENT = (
    sa.update(lineage_sent)
    .where(lineage_sent.c.event <= sa.bindparam("up_to"))
    .values(
        event=sa.bindparam("up_to"), sent_at=sa.bindparam("at_"), taken_until=sa.bindparam("until"),
        try_at=None, error=None, attempts=0,
    )
)  # fmt: skip
_LOST = sa.update(lineage_sent).values(
    try_at=sa.bindparam("again"),
    error=sa.bindparam("error_text"),
    taken_until=None,
    attempts=lineage_sent.c.attempts + 1,
)
_LEFT_OUT = sa.update(lineage_sent).values(
    left_out=lineage_sent.c.left_out + sa.bindparam("count"), refusal=sa.bindparam("why")
)
_END_TURN = sa.update(lineage_sent).values(taken_until=None)
_RESET = sa.update(lineage_sent).values(
    event=0, attempts=0, sent_at=None, try_at=None, taken_until=None, error=None, left_out=0, refusal=None
)


def take_sending_turn(database: LedgerDatabase, lease: timedelta, *, at_once: bool = False) -> int | None:
    """Take the turn to send for the time `lease`, so that no other runner sends. Return the last event that was sent.

    Return None if another runner is sending, or if the next attempt is not due yet; `at_once` ignores the latter.
    """
    with database.write_unordered() as (connection, now):
        if not connection.execute(_TAKE_TURN).rowcount:
            connection.execute(_FIRST, {"id": 1, "event": 0, "attempts": 0})
        row = connection.execute(_PROGRESS).one()
        if is_pending(row.taken_until, now) or (not at_once and is_pending(row.try_at, now)):
            return None
        connection.execute(_TAKE, {"until": now + lease})
        return int(row.event)


def record_sent(database: LedgerDatabase, up_to: int, lease: timedelta) -> None:
    """Record that all events up to the number `up_to` have arrived, and extend the turn by `lease`."""
    with database.write_unordered() as (connection, now):
        connection.execute(_SENT, {"up_to": up_to, "at_": now, "until": now + lease})


def record_lost(database: LedgerDatabase, error: str, again_in: timedelta) -> None:
    """Record why an event did not arrive and how long to wait before the next attempt. The turn ends."""
    with database.write_unordered() as (connection, now):
        connection.execute(_LOST, {"error_text": error, "again": now + again_in})


def record_rejected(database: LedgerDatabase, refused: Sequence[tuple[LineageEvent, str]]) -> None:
    """Record the events that the server rejected although it accepted later ones, with the reasons. Keep the turn."""
    with database.write() as write:
        for it, why in refused:
            data = {"why": why, "event": it.number, "what": it.what.value}
            write.log(LEFT_OUT, who=it.who, table=it.table or None, labels=[it.label], run=it.run, data=data)
        last, why = refused[-1]
        write.execute(_LEFT_OUT, {"count": len(refused), "why": f"{last.place}: {why}"})


def end_turn(database: LedgerDatabase) -> None:
    """End the turn to send without a result."""
    with database.write_unordered() as (connection, _):
        connection.execute(_END_TURN)


def reset_progress(database: LedgerDatabase) -> None:
    """Reset the progress of sending, so that all outcomes are sent once more."""
    with database.write_unordered() as (connection, _):
        connection.execute(_RESET)
