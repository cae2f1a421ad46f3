"""Reads the measures of batches: of earlier ones, for rules that compare a batch with them, and of the newest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from waterclock.batches.audit_records import MeasuredBatch
from waterclock.flow.measures import GIVEN_UP, OFFLINE, MeasuredValue, read_measured_values
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import AnyRow, batches, made_by_claim, offline_measures, revisions

_NEWEST = (
    sa.select(batches.c.label, batches.c.missing, revisions.c.rows, revisions.c.measures, offline_measures.c.found)
    .join(revisions, made_by_claim(revisions, batches, batches.c.current_claim))
    .outerjoin(offline_measures, made_by_claim(offline_measures, batches, batches.c.current_claim))
    .where(batches.c.table_name == sa.bindparam("of"))
    .order_by(batches.c.label.desc())
    .limit(sa.bindparam("most"))
)
_BEFORE = _NEWEST.where(
    batches.c.label < sa.bindparam("before"),
    batches.c.label >= sa.bindparam("low"),
    batches.c.missing.is_(None),
    sa.cast(revisions.c.measures, sa.Text).not_like(f"%{GIVEN_UP}%"),
)


@dataclass(frozen=True, slots=True)
class EarlierBatch:
    """The number of visible rows of a batch, and its measures by name."""

    rows: int
    measured: Mapping[str, MeasuredValue]


def read_earlier_measures(
    database: LedgerDatabase, table: str, before: datetime, *, low: datetime, most: int
) -> dict[datetime, EarlierBatch]:
    """Return the newest visible labels in `[low, before)`, newest first, with the measures of each.

    Labels that a user skipped because their rows were damaged are left out, and so are partial labels, which do not
    have the rows of an input. Cost: one statement, of at most `most` rows.
    """
    with database.read() as connection:
        rows = connection.execute(_BEFORE, {"of": table, "before": before, "low": low, "most": most})
        return {row.label: EarlierBatch(row.rows, read_measured_values(_merge_measures(row))) for row in rows}


def newest_counted(database: LedgerDatabase, table: str, most: int) -> tuple[MeasuredBatch, ...]:
    """Return the newest `most` visible labels, oldest first, with their measures. Cost: one statement."""
    with database.read() as connection:
        rows = connection.execute(_NEWEST, {"of": table, "most": most}).all()
        return tuple(_measured_batch(row) for row in reversed(rows))


def _measured_batch(row: AnyRow) -> MeasuredBatch:
    return MeasuredBatch(row.label, row.rows, _merge_measures(row), is_partial=row.missing is not None)


def _merge_measures(row: AnyRow) -> Mapping[str, Any]:
    """Return the measures of a revision together with those of its offline measurement."""
    measures: Mapping[str, Any] = row.measures
    return {**measures, OFFLINE: row.found} if row.found else measures
