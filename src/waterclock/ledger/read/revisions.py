"""Reads all committed revisions of a table's labels, current or replaced, to compare them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.records import count_quarantined
from waterclock.flow.measures import OFFLINE, MeasuredValue, read_measured_values
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.rows import columns_of, record_of
from waterclock.ledger.store.schema import batches, made_by_claim, offline_measures, revisions

_REVISIONS = (
    sa.select(
        *columns_of(revisions, "label claim version rows digest slice_path stands_from recorded_at measures"),
        offline_measures.c.found,
        batches.c.current_claim,
    )
    .select_from(
        revisions.outerjoin(
            batches, sa.and_(batches.c.table_name == revisions.c.table_name, batches.c.label == revisions.c.label)
        ).outerjoin(offline_measures, made_by_claim(offline_measures, revisions, revisions.c.claim))
    )
    .where(
        revisions.c.table_name == sa.bindparam("of"),
        revisions.c.label >= sa.bindparam("low"),
        revisions.c.label < sa.bindparam("high"),
    )
    .order_by(revisions.c.version, revisions.c.claim, revisions.c.label)
)
_CURRENT = sa.select(
    sa.func.count(),
    sa.func.max(batches.c.recorded_at),
    sa.func.max(batches.c.current_claim),
    sa.func.sum(batches.c.hash_high),
    sa.func.sum(batches.c.hash_low),
).where(
    batches.c.table_name == sa.bindparam("of"),
    batches.c.label >= sa.bindparam("low"),
    batches.c.label < sa.bindparam("high"),
    batches.c.current_claim.is_not(None),
)
_OFFLINE = sa.select(sa.func.count(), sa.func.max(offline_measures.c.at)).where(
    offline_measures.c.table_name == sa.bindparam("of")
)


@dataclass(frozen=True, slots=True)
class CurrentState:
    """The number of current revisions, with the time of the newest commit and a digest of all of them.

    A copy of a ledger that commits nothing to the table has the same state until the original commits or drops a label.
    """

    labels: int
    facts: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class CommittedRevision:
    """The rows that one claim committed for a label. `digest` is that of its rows, None if none is known.

    `quarantined` counts the rows that a rule quarantined, and `measured` are the values of MEASURE by name.
    """

    label: datetime
    claim: int
    version: int
    rows: int
    digest: str | None
    slice_path: str
    stands_from: datetime | None
    recorded_at: datetime
    is_current: bool = True
    quarantined: int = 0
    measured: Mapping[str, MeasuredValue] | None = None


def list_revisions(database: LedgerDatabase, name: str, low: datetime, high: datetime) -> list[CommittedRevision]:
    """Return every revision of the labels in `[low, high)`, in the order of their commits. Cost: some 20 µs each."""
    with database.read() as connection:
        rows = connection.execute(_REVISIONS, {"of": name, "low": low, "high": high}).all()
    return [
        record_of(
            CommittedRevision,
            row,
            is_current=row.current_claim == row.claim,
            quarantined=count_quarantined(row.measures),
            measured=read_measured_values({**row.measures, OFFLINE: row.found} if row.found else row.measures),
        )
        for row in rows
    ]


def read_current_state(database: LedgerDatabase, name: str, low: datetime, high: datetime) -> CurrentState:
    """Return the state of the labels in `[low, high)`. Cost: a scan of these batches, in SQL."""
    values = {"of": name, "low": low, "high": high}
    with database.read() as connection:
        labels, *facts = connection.execute(_CURRENT, values).one()
        return CurrentState(int(labels), (*facts, *connection.execute(_OFFLINE, {"of": name}).one()))
