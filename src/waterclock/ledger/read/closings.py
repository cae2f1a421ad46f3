"""Reads the closing state of windows (CLOSE WHEN)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import BEGINNING, BatchStatus, ClosedSince, Closing
from waterclock.flow.declarations import Flow
from waterclock.ledger.read.current import read_covered_windows as covered_windows
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import AnyRow, batches, closings
from waterclock.timelabel.intervals import IntervalSet

_OF_TABLE = sa.select(closings).where(closings.c.table_name == sa.bindparam("of"))
_OF_UNDONE = (
    _OF_TABLE.outerjoin(
        batches, sa.and_(batches.c.table_name == closings.c.table_name, batches.c.label == closings.c.label)
    )
    # nearly all done windows are in the first covered span, which this condition skips
    .where(sa.or_(closings.c.label < sa.bindparam("low"), closings.c.label >= sa.bindparam("high")))
    .where(batches.c.current_claim.is_(None))
)
_LAST_CLOSED = (
    _OF_TABLE.where(closings.c.tick.is_not(None), closings.c.label < sa.bindparam("high"))
    .order_by(closings.c.label.desc())
    .limit(1)
)
_SINCE = _OF_TABLE.where(closings.c.tick >= sa.bindparam("since"))
_TICKS = sa.select(closings.c.label, sa.func.coalesce(closings.c.first, closings.c.tick).label("tick")).where(
    closings.c.table_name == sa.bindparam("of"), closings.c.label >= sa.bindparam("low"), closings.c.tick.is_not(None)
)
_FIRST = sa.select(sa.func.min(closings.c.label)).where(closings.c.table_name == sa.bindparam("of"))
_SKIPPED = sa.select(batches.c.label).where(
    batches.c.table_name == sa.bindparam("of"),
    batches.c.label < sa.bindparam("high"),
    batches.c.status == BatchStatus.SKIPPED.value,
    batches.c.current_claim.is_(None),
)
_OPEN_AT = sa.select(closings.c.label, closings.c.tick).where(
    closings.c.table_name == sa.bindparam("of"),
    closings.c.tick > sa.bindparam("at"),
    closings.c.label < sa.bindparam("high"),
)
_CLOSED_IN = sa.select(closings.c.label).where(
    closings.c.table_name == sa.bindparam("of"),
    closings.c.tick.is_not(None),
    closings.c.label >= sa.bindparam("low"),
    closings.c.label < sa.bindparam("high"),
)
_OF_LABELS = _OF_TABLE.where(closings.c.label.in_(sa.bindparam("labels", expanding=True)))
_CHUNK = 500
ClosingsByTable = Mapping[str, Mapping[datetime, Closing]]


def closings_of(
    connection: sa.Connection,
    flow: Flow,
    covered: Mapping[str, IntervalSet],
    doubted: Mapping[str, Collection[datetime]],
    reads: Mapping[str, Collection[AnyRow]],
    since: Mapping[str, datetime],
) -> ClosingsByTable:
    """Map each table with CLOSE WHEN to the closings by label that the planner needs.

    These are the closings of undone windows, of `doubted` ones (their inputs may have changed) and of the last window
    before each gap in `covered`. For a table in `since`, all closings from that tick on are added. `reads` has the
    inputs of doubted windows: a window without a stored closing was closed at the end of its input. Cost: two queries
    for each of these tables, one more for each in `since` and for each gap after a skipped window.
    """
    found: defaultdict[str, dict[datetime, Closing]] = defaultdict(dict)
    for name in (name for name in covered if name in flow.tables and flow.tables[name].closes is not None):
        for _, label, _, read, _, high, _ in (tuple(row) for row in reads.get(name, ())):
            if read.startswith("UNTIL("):
                known = found[name].get(label, Closing(high)).tick
                found[name][label] = Closing(max(high, known or high))
        cadence = flow.tables[name].cadence
        low, high = next(iter(covered[name]), (BEGINNING, BEGINNING))
        rows = list(connection.execute(_OF_UNDONE, {"of": name, "low": low, "high": high}))
        if name in since:
            rows += connection.execute(_SINCE, {"of": name, "since": since[name]})
        last = {cadence.previous(high) for _, high in covered[name]}
        rows += _read_label_rows(connection, name, last | set(doubted.get(name, ())))
        for label in last - {row.label for row in rows if row.tick is not None}:
            rows += connection.execute(_LAST_CLOSED, {"of": name, "high": label})
        for row in rows:
            found[name][row.label] = _build_closing(row)
    return found


def find_first_closing_ticks(
    flow: Flow, covered: Mapping[str, IntervalSet], *again: Mapping[str, Collection[datetime]]
) -> dict[str, datetime]:
    """Map each table that has a speed table (`spd_<table>`) to the tick from which on all its closings are needed.

    The next state of the speed table needs the closings since its newest state. `again` maps tables to labels that may
    be made again. A state that is made again needs the closings from its own tick on.
    """
    found: dict[str, datetime] = {}
    for name, table in flow.tables.items():
        if table.open_of is not None and table.open_of in covered:
            made = list(covered.get(name, ()))
            labels = (label for of_table in again for label in of_table.get(name, ()))
            found[table.open_of] = min([made[-1][1], *labels]) if made else BEGINNING
    return found


def ticks_from(database: LedgerDatabase, table: str, low: datetime) -> dict[datetime, datetime]:
    """Map the label of each closed window from `low` on to the tick at which it first closed."""
    with database.read() as connection:
        return {row.label: row.tick for row in connection.execute(_TICKS, {"of": table, "low": low})}


def closings_in(
    database: LedgerDatabase, table: str, labels: Collection[datetime] | None = None
) -> dict[datetime, Closing]:
    """Map labels to the closings of their windows: the given labels, or all whose windows were ever checked."""
    with database.read() as connection:
        rows = (
            connection.execute(_OF_TABLE, {"of": table})
            if labels is None
            else _read_label_rows(connection, table, labels)
        )
        return {row.label: _build_closing(row) for row in rows}


def _read_label_rows(connection: sa.Connection, table: str, labels: Collection[datetime]) -> Iterable[AnyRow]:
    wanted = sorted(labels)
    for start in range(0, len(wanted), _CHUNK):
        yield from connection.execute(_OF_LABELS, {"of": table, "labels": wanted[start : start + _CHUNK]})


def _build_closing(row: AnyRow) -> Closing:
    texts = (row.behind or "", row.asked or "", row.who, row.why or "")
    return Closing(row.tick, row.looked, row.reason, *texts, at=row.at, first=row.first)


def read_closed_since(database: LedgerDatabase, table: str, at: datetime, high: datetime) -> ClosedSince:
    """Return which windows before `high` were closed as of the tick `at`, and which closed later.

    Cost: a scan of the table's covered spans, three short queries, and one for each span before `high` that is not
    done.
    """
    done = covered_windows(database, table)
    with database.read() as connection:
        first = connection.execute(_FIRST, {"of": table}).scalar()
        skipped = frozenset(connection.execute(_SKIPPED, {"of": table, "high": high}).scalars())
        if first is None:
            return ClosedSince(None, done, frozenset(), {}, skipped)
        later = {row.label: row.tick for row in connection.execute(_OPEN_AT, {"of": table, "at": at, "high": high})}
        closed: set[datetime] = set()
        for low, end in done.gaps(first, max(first, high)):  # slices may be before the first window ever checked
            closed |= set(connection.execute(_CLOSED_IN, {"of": table, "low": low, "high": end}).scalars())
        return ClosedSince(first, done, frozenset(closed), later, skipped)
