"""Reads results of offline measurements: the last run of each table, its measured labels, and its periods."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from waterclock.batches.offline import KeptLabel, OfflineRun, SpanMeasures
from waterclock.flow.measures import OFFLINE, read_measured_values
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.rows import columns_of
from waterclock.ledger.store.schema import offline_looks, offline_measures, offline_spans

_LAST_RUNS = sa.select(offline_looks)
_OF = offline_measures.c.table_name == sa.bindparam("of")
_MEASURED_LABELS = sa.select(
    *columns_of(offline_measures, "label claim code"),
    offline_measures.c.states.is_not(None).label("has_states"),
).where(_OF)
_STATES = sa.select(offline_measures.c.label, offline_measures.c.claim, offline_measures.c.states).where(
    _OF, offline_measures.c.label >= sa.bindparam("low"), offline_measures.c.label < sa.bindparam("high")
)
_SPANS = (
    sa.select(offline_spans)
    .where(offline_spans.c.table_name == sa.bindparam("of"))
    .order_by(offline_spans.c.low.desc())
    .limit(sa.bindparam("most"))
)


def read_offline_runs(database: LedgerDatabase) -> dict[str, OfflineRun]:
    """Map each table that was ever measured offline to its last measurement. Cost: one statement."""
    with database.read() as connection:
        return {
            row.table_name: OfflineRun(
                row.code, row.looked_at, row.at, row.labels, row.seconds, row.error, row.taken_until
            )
            for row in connection.execute(_LAST_RUNS)
        }


def list_measured_labels(database: LedgerDatabase, table: str) -> dict[datetime, KeptLabel]:
    """Map each label that was measured offline to the claim and the code that were measured. Cost: one statement."""
    with database.read() as connection:
        rows = connection.execute(_MEASURED_LABELS, {"of": table})
        return {row.label: KeptLabel(row.claim, row.code, bool(row.has_states)) for row in rows}


def read_partial_aggregates(
    database: LedgerDatabase, table: str, low: datetime, high: datetime
) -> dict[datetime, tuple[int, Any]]:
    """Map each label in `[low, high)` to the claim that was measured and its partial aggregates.

    Labels without stored partial aggregates are left out.
    """
    with database.read() as connection:
        rows = connection.execute(_STATES, {"of": table, "low": low, "high": high})
        return {row.label: (row.claim, row.states) for row in rows if row.states is not None}


def newest_spans(database: LedgerDatabase, table: str, most: int) -> tuple[SpanMeasures, ...]:
    """Return the results for the newest `most` periods of a table, newest first."""
    with database.read() as connection:
        rows = connection.execute(_SPANS, {"of": table, "most": most})
        return tuple(
            SpanMeasures(row.low, row.high, row.labels, read_measured_values({OFFLINE: row.found})) for row in rows
        )
