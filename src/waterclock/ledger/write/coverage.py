"""Stores which spans of each table are done, skipped or covered by snapshots, as merged intervals."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import sqlalchemy as sa

from waterclock.ledger.store.schema import coverage
from waterclock.timelabel.intervals import IntervalSet

_TOUCHING = sa.select(coverage.c.low, coverage.c.high).where(
    coverage.c.table_name == sa.bindparam("name"),
    coverage.c.low <= sa.bindparam("until"),
    coverage.c.high >= sa.bindparam("since"),
)
_ADD = sa.insert(coverage)
_after = coverage.alias()
# extends one interval, unless it would then touch another: the usual case of a day after the previous one
_LENGTHEN = (
    sa.update(coverage)
    .where(coverage.c.table_name == sa.bindparam("name"), coverage.c.low < sa.bindparam("since"))
    .where(coverage.c.high >= sa.bindparam("since"), coverage.c.high <= sa.bindparam("until"))
    .where(
        ~sa.exists().where(
            _after.c.table_name == sa.bindparam("name"),
            _after.c.low.between(sa.bindparam("since"), sa.bindparam("until")),
        )
    )
    .values(high=sa.bindparam("until"))
)
_REMOVE = sa.delete(coverage).where(
    coverage.c.table_name == sa.bindparam("name"), coverage.c.low == sa.bindparam("since")
)
Interval = tuple[datetime, datetime]


def cover(connection: sa.Connection, table: str, spans: IntervalSet) -> None:
    """Record that spans of a table are done, skipped or covered by a snapshot, and merge adjacent ones."""
    for low, high in spans:
        if connection.execute(_LENGTHEN, {"name": table, "since": low, "until": high}).rowcount:
            continue
        found = _read_touching_intervals(connection, table, low, high)
        if any(start <= low and high <= end for start, end in found):
            continue
        _replace_intervals(connection, table, found, IntervalSet.from_intervals([*found, (low, high)]))


def uncover(connection: sa.Connection, table: str, spans: IntervalSet) -> None:
    """Record that spans of a table are not done, skipped or covered by a snapshot any more."""
    for low, high in spans:
        found = _read_touching_intervals(connection, table, low, high)
        _replace_intervals(
            connection, table, found, IntervalSet.from_intervals(found) - IntervalSet.from_intervals([(low, high)])
        )


def _read_touching_intervals(connection: sa.Connection, table: str, low: datetime, high: datetime) -> list[Interval]:
    rows = connection.execute(_TOUCHING, {"name": table, "since": low, "until": high})
    return [(row.low, row.high) for row in rows]


def _replace_intervals(connection: sa.Connection, table: str, old: list[Interval], new: Iterable[Interval]) -> None:
    for low, _ in old:
        connection.execute(_REMOVE, {"name": table, "since": low})
    for low, high in new:
        connection.execute(_ADD, {"table_name": table, "low": low, "high": high})
