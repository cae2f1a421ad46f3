"""Reads which batches are held by a rule, and which have quarantined rows."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.batches.records import NO_VERSION, Slice
from waterclock.ledger.read.states import PIECES, slice_of
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import batches, claim_labels, revisions

_ROWS_AT_ONCE = 10
_HELD = sa.select(batches.c.label, batches.c.claim).where(
    batches.c.table_name == sa.bindparam("of"),
    sa.text("batches.status IN ('failed', 'held')"),
    batches.c.status == BatchStatus.HELD.value,
)
_HELD_AT = _HELD.where(batches.c.label == sa.bindparam("at"))
_HELD_BEFORE = sa.select(claim_labels.c.label, claim_labels.c.prior_claim).where(
    claim_labels.c.claim == sa.bindparam("number_"), claim_labels.c.prior_status == BatchStatus.HELD.value
)
_MADE = sa.select(*PIECES, revisions.c.source).join(
    revisions,
    sa.and_(
        revisions.c.table_name == batches.c.table_name,
        revisions.c.label == batches.c.label,
        revisions.c.claim == batches.c.current_claim,
    ),
)
_MADE_BEFORE = _MADE.where(
    batches.c.table_name == sa.bindparam("of"), batches.c.label < sa.bindparam("before")
).order_by(batches.c.label.desc())
_COMMITTED_SINCE = _MADE.where(
    revisions.c.table_name == sa.bindparam("of"), revisions.c.version > sa.bindparam("since")
)
_QUARANTINED = sa.select(batches.c.label, batches.c.aside, batches.c.code).where(
    batches.c.table_name == sa.bindparam("of"), sa.text("batches.aside IS NOT NULL")
)

_QUARANTINE_SLICES = (
    sa.select(*PIECES)
    .where(
        batches.c.table_name == sa.bindparam("of"),
        sa.text("batches.aside IS NOT NULL"),
        batches.c.current_claim.is_not(None),
    )
    .order_by(batches.c.label)
)


def list_held_labels(database: LedgerDatabase, table: str) -> dict[datetime, int]:
    """Return the held labels of a table, oldest first, each with the claim that sealed its slice."""
    with database.read() as connection:
        rows = connection.execute(_HELD, {"of": table}).all()
        return {row.label: row.claim for row in sorted(rows, key=lambda row: row.label)}


def find_held_claim(database: LedgerDatabase, table: str, label: datetime) -> int | None:
    """Return the claim that sealed the held slice of a label; None if the label is not held."""
    with database.read() as connection:
        row = connection.execute(_HELD_AT, {"of": table, "at": label}).first()
        return None if row is None else int(row.claim)


def list_earlier_holds(database: LedgerDatabase, number: int) -> dict[datetime, int]:
    """Return the labels of a claim that were held when it began, each with the claim that sealed its held slice."""
    with database.read() as connection:
        return {row.label: row.prior_claim for row in connection.execute(_HELD_BEFORE, {"number_": number})}


def list_unread_releases(
    database: LedgerDatabase, table: str, first: datetime, before: datetime, *, note: str
) -> list[Slice]:
    """Return the slices that were released after the last batch before `first` was made, with labels before `before`.

    The LOOKBACK of no batch before `first` has read the windows of these slices since their release. They are ordered
    by label. `note` is the name of the source note that only released slices have. Cost: the batches that were
    committed since are read.
    """
    with database.read() as connection:
        made = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(
            _MADE_BEFORE, {"of": table, "before": first}
        )
        since = next((row.version for row in made if note not in row.source), NO_VERSION)
        made.close()
        rows = connection.execute(_COMMITTED_SINCE, {"of": table, "since": since}).all()
        found = (slice_of(row) for row in rows if row.label < before and note in row.source)
        return sorted(found, key=lambda piece: piece.label)


def list_quarantined_labels(database: LedgerDatabase, table: str) -> dict[datetime, tuple[int, str]]:
    """Map each label with quarantined rows, oldest first, to their number and the code of the batch."""
    with database.read() as connection:
        rows = connection.execute(_QUARANTINED, {"of": table}).all()
        return {row.label: (row.aside, row.code) for row in sorted(rows, key=lambda row: row.label)}


def list_quarantine_slices(database: LedgerDatabase, table: str) -> list[Slice]:
    """Return the current slices with quarantined rows, by label. Cost: nothing for other slices."""
    with database.read() as connection:
        return [slice_of(row) for row in connection.execute(_QUARANTINE_SLICES, {"of": table})]
