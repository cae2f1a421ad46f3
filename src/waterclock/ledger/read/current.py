"""Reads the content that readers of a table see: its current slices, its state at a tick, and their versions."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import FOREVER, BatchStatus
from waterclock.batches.records import NO_VERSION, CommittedSlice, Input, Pin, Slice, TableRecord
from waterclock.flow.enums import Mode
from waterclock.ledger import ledger_errors
from waterclock.ledger.read.content import FEW, MOST_AT_ONCE, NOTHING, content_between, contents_of, running_contents
from waterclock.ledger.read.inputs import read_inputs
from waterclock.ledger.read.states import PIECES, slice_of, states_of
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.instants import Instant
from waterclock.ledger.store.rows import chunks_of, columns_of, record_of
from waterclock.ledger.store.schema import AnyRow, batches, claims, coverage, items, revisions, tables, versions
from waterclock.timelabel.intervals import IntervalSet

_TABLE = sa.select(tables).where(tables.c.name == sa.bindparam("of"))
_TABLES = sa.select(tables).order_by(tables.c.name)
_MOST_NUMBERS = 500
_CLAIMED = sa.select(claims.c.number).where(claims.c.number.in_(sa.bindparam("numbers", expanding=True)))
_NAMED = sa.select(tables.c.name, tables.c.mode, tables.c.location, tables.c.head_version, tables.c.changes).where(
    tables.c.name.in_(sa.bindparam("names", expanding=True))
)
_NAMES = sa.select(tables.c.name)
_CURRENT = sa.select(batches).where(batches.c.table_name == sa.bindparam("of"), batches.c.current_claim.is_not(None))
_SLICES = _CURRENT.where(batches.c.label >= sa.bindparam("low"), batches.c.label < sa.bindparam("high")).order_by(
    batches.c.label
)
_NEWEST_BEFORE = _CURRENT.where(batches.c.label < sa.bindparam("at")).order_by(batches.c.label.desc()).limit(1)
_LAST_RECORDED = _CURRENT.order_by(batches.c.current_claim.desc()).limit(1)
_CLAIM = sa.select(batches.c.current_claim).where(
    batches.c.table_name == sa.bindparam("of"), batches.c.label == sa.bindparam("at")
)
_VERSION = (
    sa.select(versions.c.version)
    .where(versions.c.table_name == sa.bindparam("of"), versions.c.label == sa.bindparam("at"))
    .where(versions.c.dropped_by.is_(None))
)
_VERSIONS = (
    sa.select(versions.c.label, versions.c.version)
    .where(versions.c.table_name == sa.bindparam("of"), versions.c.dropped_by.is_(None))
    .order_by(versions.c.label)
)
_COMMITTED = (
    sa.select(*columns_of(revisions, "label claim version slice_path stands_from recorded_at"))
    .where(revisions.c.table_name == sa.bindparam("of"))
    .order_by(revisions.c.version, revisions.c.label)
)
_LABELS_SINCE = sa.select(revisions.c.label).where(
    revisions.c.table_name == sa.bindparam("of"), revisions.c.version > sa.bindparam("after")
)
_COMMITTED_SINCE = _COMMITTED.where(revisions.c.label.in_(_LABELS_SINCE))
_COVERED = sa.select(coverage.c.low, coverage.c.high).where(coverage.c.table_name == sa.bindparam("of"))
_COLLECTED = sa.select(items.c.item).where(items.c.table_name == sa.bindparam("of"))
_OWNED = sa.select(items.c.label, items.c.data).where(
    items.c.table_name == sa.bindparam("of"), items.c.label.in_(sa.bindparam("labels", expanding=True))
)
_LAST_OWNED = (
    sa.select(items.c.label, items.c.data)
    .where(items.c.table_name == sa.bindparam("of"), items.c.item >= sa.bindparam("low"))
    .where(items.c.item < sa.bindparam("high"))
    .order_by(items.c.item.desc())
    .limit(1)
)
_in_range = (
    items.c.table_name == sa.bindparam("of"),
    items.c.item >= sa.bindparam("low"),
    items.c.item < sa.bindparam("high"),
)
_first, _last = sa.bindparam("first", type_=Instant()), sa.bindparam("last", type_=Instant())
_label_before = sa.select(sa.func.max(items.c.label)).where(*_in_range, items.c.label < _first).scalar_subquery()
_label_after = sa.select(sa.func.min(items.c.label)).where(*_in_range, items.c.label > _last).scalar_subquery()
_AROUND = (
    sa.select(items.c.label, items.c.data)
    .where(*_in_range, items.c.label >= sa.func.coalesce(_label_before, _first))
    .where(items.c.label <= sa.func.coalesce(_label_after, _last))
    .order_by(items.c.item)
)
_OLDEST_OPEN_OWNER = (
    sa.select(sa.func.min(items.c.label))
    .join(batches, sa.and_(batches.c.table_name == items.c.table_name, batches.c.label == items.c.label))
    .where(*_in_range, batches.c.current_claim.is_(None))
    .where(sa.or_(batches.c.status.is_(None), batches.c.status != BatchStatus.SKIPPED.value))
)
_COLLECTED_AMONG = sa.select(items.c.item, items.c.data).where(
    items.c.table_name == sa.bindparam("of"), items.c.item.in_(sa.bindparam("names", expanding=True))
)


def table(database: LedgerDatabase, name: str) -> TableRecord:
    """Return the ledger's record of a table. Raises E412 for a table that no applied flow has declared."""
    with database.read() as connection:
        return record_of(TableRecord, _read_table_row(connection, name))


def find_table(database: LedgerDatabase, name: str) -> TableRecord | None:
    """Return the ledger's record of a table; None if no applied flow has declared it."""
    with database.read() as connection:
        row = connection.execute(_TABLE, {"of": name}).first()
        return None if row is None else record_of(TableRecord, row)


def unknown_claims(database: LedgerDatabase, numbers: Collection[int]) -> frozenset[int]:
    """Return the numbers among `numbers` that belong to no claim of this ledger."""
    with database.read() as connection:
        wanted, found = sorted(numbers), set[int]()
        for first in range(0, len(wanted), _MOST_NUMBERS):
            values = {"numbers": wanted[first : first + _MOST_NUMBERS]}
            found.update(connection.execute(_CLAIMED, values).scalars())
        return frozenset(numbers) - found


def list_tables(database: LedgerDatabase) -> list[TableRecord]:
    """Return the records of all tables in the ledger, by name."""
    with database.read() as connection:
        return [record_of(TableRecord, row) for row in connection.execute(_TABLES)]


def read_covered_windows(database: LedgerDatabase, name: str) -> IntervalSet:
    """Return the windows of a table that are done, skipped or covered by a snapshot; empty for an unknown table."""
    with database.read() as connection:
        return IntervalSet.from_intervals((row.low, row.high) for row in connection.execute(_COVERED, {"of": name}))


def slices(database: LedgerDatabase, name: str, low: datetime, high: datetime) -> list[Slice]:
    """Return the current slices with a label in `[low, high)`, by label."""
    with database.read() as connection:
        return [slice_of(row) for row in connection.execute(_SLICES, {"of": name, "low": low, "high": high})]


def state(database: LedgerDatabase, name: str, at: datetime) -> Slice | None:
    """Return the slice that made the table's state as of the boundary `at`, with the version of that state.

    REPLACE: the slice of the window that ends at `at`, or the snapshot that covers this window. TEMPORAL: the snapshot
    that covers it, or else the slice of the newest done label before `at`. MERGE, APPEND: the slice of the newest done
    label before `at`. The version is the one that stores exactly this state (`NO_VERSION` if none does). For APPEND,
    whose states are read by timelabel, it is the table's newest.
    """
    with database.read() as connection:
        found = connection.execute(_TABLE, {"of": name}).first()
        return None if found is None else states_of(connection, [(found, at)])[name, at]


def newest(database: LedgerDatabase, name: str, before: datetime = FOREVER) -> Slice | None:
    """Return the current slice with the newest label before `before`; None before the first batch is done."""
    with database.read() as connection:
        row = connection.execute(_NEWEST_BEFORE, {"of": name, "at": before}).first()
        return None if row is None else slice_of(row)


def last_recorded(database: LedgerDatabase, name: str) -> Slice | None:
    """Return the current slice with the newest claim; None before the first batch. Cost: a check of each label."""
    with database.read() as connection:
        row = connection.execute(_LAST_RECORDED, {"of": name}).first()
        return None if row is None else slice_of(row)


def inputs(database: LedgerDatabase, name: str, label: datetime) -> tuple[Input, ...]:
    """Return the inputs of a batch's current revision, in the order of its reads; empty if it was never done."""
    with database.read() as connection:
        number = connection.execute(_CLAIM, {"of": name, "at": label}).scalar()
        return () if number is None else read_inputs(connection, number).get(label, ())


def version_at(database: LedgerDatabase, name: str, label: datetime) -> int | None:
    """Return the stored version of a REPLACE or MERGE table's state at `label`; None if none is stored."""
    with database.read() as connection:
        return connection.execute(_VERSION, {"of": name, "at": label}).scalar()


def versions_of(database: LedgerDatabase, name: str) -> dict[datetime, int]:
    """Return the version map of a REPLACE or MERGE table: the stored version of the state at each label."""
    with database.read() as connection:
        return {row.label: row.version for row in connection.execute(_VERSIONS, {"of": name})}


def list_committed_slices(database: LedgerDatabase, name: str) -> list[CommittedSlice]:
    """Return every slice that was ever committed to a table, in the order of its versions. Cost: 5 µs a slice."""
    with database.read() as connection:
        return [CommittedSlice(*row) for row in connection.execute(_COMMITTED, {"of": name})]


def changed_slices(database: LedgerDatabase, name: str, after: int) -> list[CommittedSlice]:
    """Return the slices that commits after the version `after` added or replaced. Cost: a check of each revision."""
    with database.read() as connection:
        rows = [CommittedSlice(*row) for row in connection.execute(_COMMITTED_SINCE, {"of": name, "after": after})]
    before = {row.label: row for row in rows if row.version <= after}
    return [*before.values(), *(row for row in rows if row.version > after)]


def content(database: LedgerDatabase, name: str, low: datetime, high: datetime) -> str:
    """Return the short text that identifies the content of a table's interval. Raises E412 for an unknown table."""
    return contents(database, [(name, low, high)])[name, low, high]


def contents(
    database: LedgerDatabase, wanted: Collection[tuple[str, datetime, datetime]]
) -> dict[tuple[str, datetime, datetime], str]:
    """Map each interval `(table, low, high)` to its content, all at one moment. Raises E412 for an unknown table."""
    with database.read() as connection:
        modes = {name: row.mode for name, row in _read_table_rows(connection, {name for name, _, _ in wanted}).items()}
        return contents_of(connection, modes, wanted)


def pins(database: LedgerDatabase, wanted: Collection[tuple[str, datetime, datetime]]) -> list[Pin]:
    """Return a pin for each reference `(table, low, high)`: its Delta version and content, all at one moment.

    Cost: a slice of an APPEND table is read once if many references include it, otherwise once for each of them. Raises
    E412 for a table that no applied flow has declared.
    """
    with database.read() as connection:
        rows = _read_table_rows(connection, {name for name, _, _ in wanted})
        modes = {name: row.mode for name, row in rows.items() if row.mode != Mode.APPEND}
        states = contents_of(connection, modes, [each for each in wanted if each[0] in modes])
        held = slices_of(connection, [each for each in wanted if each[0] not in modes])
        made = states_of(connection, [(rows[name], high) for name, low, high in wanted if name in modes and low < high])
        return [
            _build_pin(rows[each[0]], each, states.get(each), made.get((each[0], each[2])), held.get(each))
            for each in wanted
        ]


def list_collected_items(database: LedgerDatabase, name: str) -> set[str]:
    """Return the names of all source items, such as files, that a table has collected."""
    with database.read() as connection:
        return set(connection.execute(_COLLECTED, {"of": name}).scalars())


def find_collected_items(database: LedgerDatabase, name: str, names: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Find the source items among `names` that a table has collected.

    Map their names to their data, as it was collected.
    """
    found: dict[str, Mapping[str, Any]] = {}
    with database.read() as connection:
        wanted = list(names)
        for start in range(0, len(wanted), 500):
            values = {"of": name, "names": wanted[start : start + 500]}
            found |= {row.item: row.data for row in connection.execute(_COLLECTED_AMONG, values)}
    return found


def owned_items(
    database: LedgerDatabase, name: str, labels: Iterable[datetime], span: tuple[str, str]
) -> tuple[Mapping[datetime, tuple[Mapping[str, Any], ...]], tuple[datetime, Mapping[str, Any]] | None]:
    """Return the data of the source items that `labels` own, by label, and the last item in a range of names.

    `span` is the range `[low, high)`. The last item in it is returned as its label and data, or None.
    """
    found: dict[datetime, list[Mapping[str, Any]]] = defaultdict(list)
    with database.read() as connection:
        for row in connection.execute(_OWNED, {"of": name, "labels": list(labels)}):
            found[row.label].append(row.data)
        last = connection.execute(_LAST_OWNED, {"of": name, "low": span[0], "high": span[1]}).first()
    by_label = {label: tuple(owned) for label, owned in found.items()}
    return by_label, None if last is None else (last.label, last.data)


def items_around(
    database: LedgerDatabase, name: str, labels: Collection[datetime], span: tuple[str, str]
) -> list[tuple[datetime, Mapping[str, Any]]]:
    """Return the source items in a range of names, from the last ones before `labels` to the first ones after them.

    `span` is the range `[low, high)`. Each item is returned as its label and data, in the order of names.
    """
    values = {"of": name, "low": span[0], "high": span[1], "first": min(labels), "last": max(labels)}
    with database.read() as connection:
        return [(row.label, row.data) for row in connection.execute(_AROUND, values)]


def oldest_open_owner(database: LedgerDatabase, name: str, span: tuple[str, str]) -> datetime | None:
    """Return the oldest label that owns a source item with a name in `[low, high)`, and is neither done nor skipped."""
    with database.read() as connection:
        values = {"of": name, "low": span[0], "high": span[1]}
        found: datetime | None = connection.execute(_OLDEST_OPEN_OWNER, values).scalar()
        return found


def _read_table_row(connection: sa.Connection, name: str) -> AnyRow:
    row = connection.execute(_TABLE, {"of": name}).first()
    if row is None:
        raise ledger_errors.unknown_table(name, connection.execute(_NAMES).scalars())
    return row


def _read_table_rows(connection: sa.Connection, names: Iterable[str]) -> dict[str, AnyRow]:
    wanted = sorted(names)
    found = {row.name: row for row in connection.execute(_NAMED, {"names": wanted})}
    for name in wanted:
        if name not in found:
            raise ledger_errors.unknown_table(name, connection.execute(_NAMES).scalars())
    return found


def _build_pin(
    row: AnyRow,
    wanted: tuple[str, datetime, datetime],
    content: str | None,
    made: Slice | None,
    held: SlicesContent | None,
) -> Pin:
    """Build the pin of a reference: to the slices in `held` for an APPEND table, else to the state in `made`."""
    name, low, high = wanted
    if held is not None:
        return Pin(name, low, high, row.location, int(row.head_version), held.content, held.slices, row.changes)
    slices, version = ((), NO_VERSION) if made is None or low >= high else ((made,), made.version)
    return Pin(name, low, high, row.location, version, content or NOTHING, slices, row.changes)


@dataclass(frozen=True, slots=True)
class SlicesContent:
    """The current slices of an APPEND table's interval, by label, and the interval's content."""

    slices: tuple[Slice, ...]
    content: str


def slices_of(
    connection: sa.Connection, wanted: Iterable[tuple[str, datetime, datetime]]
) -> dict[tuple[str, datetime, datetime], SlicesContent]:
    """Map each interval of an APPEND table to its slices and content. Many intervals of a table are read as one."""
    by_table: defaultdict[str, set[tuple[datetime, datetime]]] = defaultdict(set)
    for name, low, high in wanted:
        by_table[name].add((low, high))
    hulls: list[tuple[str, set[tuple[datetime, datetime]]]] = []
    for name, intervals in by_table.items():
        hulls += [(name, {each}) for each in intervals] if len(intervals) <= FEW else [(name, intervals)]
    found: dict[tuple[str, datetime, datetime], SlicesContent] = {}
    for chunk in chunks_of(hulls, MOST_AT_ONCE):
        for (name, hull), rows in zip(chunk, _read_hulls(connection, chunk), strict=True):
            slices, sums = tuple(map(slice_of, rows)), running_contents(rows)
            labels = [piece.label for piece in slices]
            for low, high in hull:
                first, last = bisect_left(labels, low), bisect_left(labels, max(low, high))
                found[name, low, high] = SlicesContent(slices[first:last], content_between(sums, first, last))
    return found


def _read_hulls(
    connection: sa.Connection, hulls: Sequence[tuple[str, Collection[tuple[datetime, datetime]]]]
) -> list[list[AnyRow]]:
    """Return the current slices of each group of intervals, from its earliest to its latest instant, by label."""
    values: dict[str, Any] = {}
    for at, (name, hull) in enumerate(hulls):
        ends = {f"low_{at}": min(low for low, _ in hull), f"high_{at}": max(high for _, high in hull)}
        values |= {f"of_{at}": name, **ends}
    rows: list[list[AnyRow]] = [[] for _ in hulls]
    for row in connection.execute(_select_hull_slices(len(hulls)), values):
        rows[row.hull].append(row)
    return [sorted(of_hull, key=lambda row: row.label) for of_hull in rows]


@cache
def _select_hull_slices(hulls: int) -> sa.CompoundSelect[*tuple[Any, ...]]:
    return sa.union_all(
        *(
            sa.select(*PIECES, sa.literal_column(str(at)).label("hull")).where(
                batches.c.table_name == sa.bindparam(f"of_{at}"),
                batches.c.label >= sa.bindparam(f"low_{at}"),
                batches.c.label < sa.bindparam(f"high_{at}"),
                batches.c.current_claim.is_not(None),
            )
            for at in range(hulls)
        )
    )
