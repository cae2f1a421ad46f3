"""Reads the progress of tables: open claims, when the newest labels were done, and their numbers of rows.

Each function executes one statement, independent of the number of tables.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.batches.progress_records import LabelRows, MadeLabel, RunningClaim
from waterclock.ledger.read.durations import TOOK
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.instants import Instant
from waterclock.ledger.store.rows import columns_of
from waterclock.ledger.store.schema import IS_OPEN, AnyRow, batches, claim_labels, claims, revisions, runs, tables

_STARTING = timedelta(minutes=10)  # a run may take this long to start after its clock was set
_NAMES: sa.BindParameter[Any] = sa.bindparam("names", expanding=True)
_NEWER = batches.alias("newer")
# the newest label of each table that is older than its `most` newest ones
_FROM = sa.func.coalesce(
    sa.select(_NEWER.c.label)
    .where(_NEWER.c.table_name == tables.c.name, _NEWER.c.current_claim.is_not(None))
    .order_by(_NEWER.c.label.desc())
    .limit(1)
    .offset(sa.bindparam("most"))
    .correlate(tables)
    .scalar_subquery(),
    sa.bindparam("beginning", BEGINNING, type_=Instant()),
)
_ROWS_OF = sa.func.coalesce(batches.c.rows, 0) + sa.func.coalesce(batches.c.aside, 0)
_NEWEST = sa.and_(batches.c.table_name == tables.c.name, batches.c.label > _FROM, batches.c.current_claim.is_not(None))
_MADE = (
    sa.select(
        *columns_of(batches, "table_name label end"),
        _ROWS_OF.label("rows"),
        revisions.c.claim,
        revisions.c.recorded_at,
        TOOK.label("took"),
        runs.c.now,
        runs.c.started_at,
    )
    .select_from(tables)
    .join(batches, _NEWEST)
    .join(revisions, sa.and_(revisions.c.table_name == batches.c.table_name, revisions.c.label == batches.c.label))
    .join(claims, claims.c.number == revisions.c.claim)
    .outerjoin(runs, runs.c.run == claims.c.run)
    .where(tables.c.name.in_(_NAMES))
)
_ROWS = (
    sa.select(batches.c.table_name, batches.c.label, _ROWS_OF.label("rows"))
    .select_from(tables)
    .join(batches, _NEWEST)
    .where(tables.c.name.in_(_NAMES))
)
_LAST = (
    sa.select(_ROWS_OF)
    .where(batches.c.table_name == tables.c.name, batches.c.current_claim.is_not(None))
    .order_by(batches.c.label.desc())
    .limit(1)
    .correlate(tables)
    .scalar_subquery()
)
_EMPTY = sa.select(tables.c.name).where(tables.c.name.in_(_NAMES), _LAST == 0)
_OPEN_CLAIMS = (
    sa.select(
        *columns_of(claims, "table_name number claimed_at"),
        sa.func.min(claim_labels.c.label).label("first"),
        sa.func.count().label("labels"),
    )
    .join(claim_labels, claim_labels.c.claim == claims.c.number)
    .where(IS_OPEN, claims.c.table_name.in_(_NAMES))
    .group_by(claims.c.table_name, claims.c.number, claims.c.claimed_at)
)
_BEGAN = sa.select(claims.c.table_name, claims.c.now).where(
    claims.c.number.in_(
        sa.select(sa.func.min(claim_labels.c.claim))
        .where(claim_labels.c.table_name.in_(_NAMES))
        .group_by(claim_labels.c.table_name)
    )
)

_OLDER = claim_labels.alias("older")
_OLDEST = (
    sa.select(sa.func.min(_OLDER.c.label))
    .where(_OLDER.c.table_name == tables.c.name)
    .correlate(tables)
    .scalar_subquery()
)
_BEGAN_BY = sa.select(
    tables.c.name,
    sa.select(sa.func.min(claims.c.now))
    .where(
        claims.c.number.in_(
            sa.select(claim_labels.c.claim)
            .where(claim_labels.c.table_name == tables.c.name, claim_labels.c.label == _OLDEST)
            .correlate(tables)
        )
    )
    .correlate(tables)
    .scalar_subquery(),
).where(tables.c.name.in_(_NAMES))


def list_open_claims(database: LedgerDatabase, names: Collection[str]) -> tuple[RunningClaim, ...]:
    """Return the open claims of some tables."""
    with database.read() as connection:
        rows = connection.execute(_OPEN_CLAIMS, {"names": sorted(names)})
        return tuple(RunningClaim(row.table_name, row.number, row.first, row.labels, row.claimed_at) for row in rows)


def read_first_claim_times(database: LedgerDatabase, names: Collection[str]) -> dict[str, datetime]:
    """Map each table to the logical time of its first claim, if it has one. Cost: a scan of the index of labels."""
    with database.read() as connection:
        return {row.table_name: row.now for row in connection.execute(_BEGAN, {"names": sorted(names)})}


def began_by(database: LedgerDatabase, names: Collection[str]) -> dict[str, datetime]:
    """Map each table to a logical time by which it had its first claim: that of the first claim of its oldest label.

    The table's first claim may be earlier, if its history was made backwards. Cost: a query of one label of each table.
    """
    with database.read() as connection:
        rows = connection.execute(_BEGAN_BY, {"names": sorted(names)})
        return {name: now for name, now in rows if now is not None}


def list_newest_labels(database: LedgerDatabase, names: Collection[str], most: int) -> dict[str, tuple[MadeLabel, ...]]:
    """Map each table to its newest `most` visible labels, oldest first, each with when and how fast it was first made.

    Real clock times are shifted by the difference to the logical clock of their run (`--now`).
    """
    first: dict[tuple[str, datetime], AnyRow] = {}
    with database.read() as connection:
        for row in connection.execute(_MADE, {"names": sorted(names), "most": most}):
            at = row.table_name, row.label
            if at not in first or row.claim < first[at].claim:
                first[at] = row
    found: dict[str, list[MadeLabel]] = {}
    for name, label in sorted(first):
        found.setdefault(name, []).append(_build_made_label(first[name, label]))
    return {name: tuple(labels) for name, labels in found.items()}


def newest_rows(database: LedgerDatabase, names: Collection[str], most: int) -> dict[str, tuple[LabelRows, ...]]:
    """Map each table to its newest `most` visible labels, oldest first, with their numbers of rows."""
    found: dict[str, list[LabelRows]] = {}
    with database.read() as connection:
        for row in connection.execute(_ROWS, {"names": sorted(names), "most": most}):
            found.setdefault(row.table_name, []).append(LabelRows(row.label, int(row.rows)))
    return {name: tuple(sorted(labels, key=lambda each: each.label)) for name, labels in found.items()}


def empty_at_last(database: LedgerDatabase, names: Collection[str]) -> frozenset[str]:
    """Return the tables whose newest visible label has no rows, not even quarantined ones."""
    with database.read() as connection:
        return frozenset(connection.execute(_EMPTY, {"names": sorted(names)}).scalars())


def _build_made_label(row: AnyRow) -> MadeLabel:
    clock_shift = timedelta(0) if row.now is None else row.now - row.started_at
    if abs(clock_shift) < _STARTING:
        clock_shift = timedelta(0)
    # not computed from `recorded_at`, which is later than the clock if the clock was set back
    took = timedelta(microseconds=max(float(row.took), 0.0))
    return MadeLabel(row.label, row.end, int(row.rows), row.recorded_at + clock_shift, took)
