"""Reads when a table was paused and resumed."""

from __future__ import annotations

import sqlalchemy as sa

from waterclock.batches.audit_records import PAUSED, RESUMED, PauseEvent
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import events

_PAUSES = (
    sa.select(events.c.at, events.c.kind, events.c.table_name, events.c.who, events.c.data)
    .where(
        sa.or_(events.c.table_name == sa.bindparam("of"), events.c.table_name.is_(None)),
        events.c.label.is_(None),
        events.c.kind.in_((PAUSED, RESUMED)),
    )
    .order_by(events.c.id)
)


def pauses(database: LedgerDatabase, table: str) -> tuple[PauseEvent, ...]:
    """Return when a table, or all tables, were paused and resumed, oldest first. Cost: a scan of some events."""
    with database.read() as connection:
        return tuple(
            PauseEvent(row.at, row.kind, row.table_name is None, row.who, str((row.data or {}).get("why", "")))
            for row in connection.execute(_PAUSES, {"of": table})
        )
