"""Which batches are held back by a rule, and of which rows were set aside."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.facts import BatchStatus
from waterclock.ledger.store.database import Database
from waterclock.ledger.store.schema import batches

_HELD = sa.select(batches.c.label, batches.c.claim).where(
    batches.c.table_name == sa.bindparam("of"),
    sa.text("batches.status IN ('failed', 'held')"),
    batches.c.status == BatchStatus.HELD.value,
)
_ASIDE = sa.select(batches.c.label, batches.c.aside, batches.c.code).where(
    batches.c.table_name == sa.bindparam("of"), sa.text("batches.aside IS NOT NULL")
)


def held(database: Database, table: str) -> dict[datetime, int]:
    """Return the held labels of a table, oldest first, each with the claim that sealed what is held."""
    with database.read() as connection:
        rows = connection.execute(_HELD, {"of": table}).all()
        return {row.label: row.claim for row in sorted(rows, key=lambda row: row.label)}


def set_aside(database: Database, table: str) -> dict[datetime, tuple[int, str]]:
    """Return the labels of which rows are set aside, oldest first: how many, and the code that did it."""
    with database.read() as connection:
        rows = connection.execute(_ASIDE, {"of": table}).all()
        return {row.label: (row.aside, row.code) for row in sorted(rows, key=lambda row: row.label)}
