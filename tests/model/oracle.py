"""Computes a clean rebuild by brute force over lists of windows, from docs/explain/time.md and consistency.md.

Shares no code with the planner: windows are cut by checking every minute, and ⌊t⌋ is searched in a list. Results that
depend on when a run happened are inputs: contents of snapshots, ticks of LATEST, skipped labels.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

from tests.model.toy import Rows, fold, query
from waterclock.flow.declarations import Flow, Read, Table
from waterclock.flow.enums import Kind, Mode, ReadKind
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.period import Period, TimeUnit
from waterclock.timelabel.window import Window

ERA = (datetime(2013, 3, 22, tzinfo=UTC), datetime(2013, 4, 10, tzinfo=UTC))
_NEVER_BEFORE = ERA[0] + timedelta(days=2)
Key = tuple[str, datetime]


def windows_of(cadence: Cadence) -> tuple[Window, ...]:
    """Cut the whole era into windows, oldest first."""
    return _windows(cadence.period, cadence.zone)


@cache
def _windows(period: Period, zone_name: str) -> tuple[Window, ...]:
    """Cut windows by checking every fifth minute: all boundaries are multiples of five minutes."""
    starts = []
    newest = date.min
    zone = ZoneInfo(zone_name)
    minute = ERA[0]
    while minute < ERA[1]:
        if period.unit is TimeUnit.MINUTE:
            if (minute.hour * 60 + minute.minute) % period.count == 0:
                starts.append(minute)
        elif (local := minute.astimezone(zone).date()) > newest:
            newest = local
            starts.append(minute)
        minute += timedelta(minutes=5)
    return tuple(Window(low, high) for low, high in pairwise(starts[1:]))


@cache
def _places(period: Period, zone: str) -> dict[datetime, int]:
    return {window.start: place for place, window in enumerate(_windows(period, zone))}


def window_at(table: Table, label: datetime) -> Window:
    """Return the window with a label."""
    cadence = table.cadence
    return windows_of(cadence)[_places(cadence.period, cadence.zone)[label]]


def window_before(table: Table, label: datetime) -> Window:
    """Return the window that ends where another starts."""
    cadence = table.cadence
    return windows_of(cadence)[_places(cadence.period, cadence.zone)[label] - 1]


def floor(table: Table, t: datetime) -> datetime:
    """Return ⌊t⌋: the table's last window boundary at or before t."""
    windows = windows_of(table.cadence)
    place = bisect_right(windows, t, key=lambda window: window.start)
    assert place, "the era starts too late"
    return windows[place - 1].start


def reads_of(table: Table, window: Window) -> tuple[Read, ...]:
    """Return the reads of a window; if it chooses, those of the first query whose condition is true."""
    if not table.choices:
        return table.reads
    chosen = (it for it in table.choices if it.condition is None or CONDITIONS[it.condition.text](table, window))
    return next(chosen).reads


def _queries(table: Table) -> list[tuple[Read, ...]]:
    return [choice.reads for choice in table.choices] or [table.reads]


def _local(table: Table, instant: datetime) -> datetime:
    return instant.astimezone(ZoneInfo(table.cadence.zone))


_TURN = datetime(2013, 3, 31, 6, tzinfo=UTC)
CONDITIONS: Mapping[str, Callable[[Table, Window], bool]] = {
    "WINDOW_START() < '2013-03-31T06:00Z'": lambda _, window: window.start < _TURN,
    "WINDOW_END() >= '2013-03-31T06:00Z'": lambda _, window: window.end >= _TURN,
    "date(WINDOW_START()) <= '2013-03-30'": lambda t, w: _local(t, w.start).date() <= date(2013, 3, 30),
    "day(WINDOW_START()) % 2 = 1": lambda table, window: _local(table, window.start).day % 2 == 1,
    "hour(WINDOW_END()) BETWEEN 6 AND 17": lambda table, window: 6 <= _local(table, window.end).hour <= 17,
    "dayofweek(WINDOW_START()) = 1 OR NULL": lambda table, window: _local(table, window.start).isoweekday() == 7,
    "TIMELABEL() < '20130401' AND NOT minute(WINDOW_START()) = 0": lambda table, window: (
        window.start < datetime(2013, 4, 1, tzinfo=UTC) and _local(table, window.start).minute != 0
    ),
}
"""The conditions by which a window may choose, and their results by hand."""


def earlier(t: datetime, span: Duration, zone: str) -> datetime:
    """Subtract elapsed hours or local dates."""
    if span.unit in {"MINUTE", "HOUR"}:
        return t - timedelta(minutes=span.amount * (60 if span.unit == "HOUR" else 1))
    return _moved(t, -span.amount, zone)


def later(t: datetime, span: Duration, zone: str) -> datetime:
    """Add elapsed hours or local dates."""
    if span.unit in {"MINUTE", "HOUR"}:
        return t + timedelta(minutes=span.amount * (60 if span.unit == "HOUR" else 1))
    return _moved(t, span.amount, zone)


def _moved(t: datetime, days: int, zone: str) -> datetime:
    naive = t.astimezone(ZoneInfo(zone)).replace(tzinfo=None) + timedelta(days=days)
    return naive.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


@dataclass(slots=True)
class Oracle:
    """Evaluates any batch of a flow from the sources up, and caches the results."""

    flow: Flow
    grains: Mapping[str, int]
    source: Mapping[Key, int]
    looks: Mapping[str, Mapping[datetime, int]]
    ticks: Mapping[Key, Mapping[str, datetime]]
    skipped: frozenset[Key]
    first_look: datetime
    now: datetime
    closed: Mapping[Key, datetime] = field(default_factory=dict)
    starts: dict[str, datetime] = field(default_factory=dict)
    _makeable: dict[tuple[str, datetime, bool], bool] = field(default_factory=dict)
    _rows: dict[Key, Rows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.flow.order:
            self.starts[name] = self._start(self.flow.tables[name])

    def needed(self) -> set[Key]:
        """Return every batch that must have been made by now: the requested ones and all their inputs."""
        found: set[Key] = set()
        to_do = [key for table in self.flow.tables.values() for key in self._wanted(table) if self.can_be_made(*key)]
        while to_do:
            key = to_do.pop()
            if key in found or key in self.skipped:
                continue
            found.add(key)
            table = self.flow.tables[key[0]]
            if not table.is_snapshot:
                to_do.extend(self._upstream(table, window_at(table, key[1])))
        return found

    def can_be_made(self, name: str, label: datetime, *, by_any: bool = False) -> bool:
        """Return whether a batch and all its direct and indirect inputs are due.

        `by_any`: whichever of its queries makes a window that chooses, here and in its inputs.
        """
        key = (name, label, by_any)
        if key not in self._makeable:
            table = self.flow.tables[name]
            window = window_at(table, label)
            is_due = window.end + table.cadence.delay <= self.now
            is_due = is_due and (table.closes is None or (name, label) in self.closed)
            reads = table.reads if by_any else reads_of(table, window)
            is_due = is_due and (by_any or self._is_in_turn(table, label))
            self._makeable[key] = (name, label) in self.skipped or (
                is_due and all(self._serves(table, read, window, by_any=by_any) for read in reads)
            )
        return self._makeable[key]

    def _is_in_turn(self, table: Table, label: datetime) -> bool:
        """Return whether all earlier labels of a table in label order can be made.

        If no table's windows choose their reads or are closed in order, this follows from the label itself.
        """
        is_ordered = table.is_in_label_order or self._is_by_label(table) or self._in_circle(table)
        if not is_ordered or not any(other.choices or other.closes for other in self.flow.tables.values()):
            return True
        before = [window.start for window in self.due(table) if window.start < label]
        return all(self.can_be_made(table.name, earlier) for earlier in before)

    def _serves(self, table: Table, read: Read, window: Window, *, by_any: bool) -> bool:
        u = self.flow.tables[read.table]
        if u.is_snapshot:
            looks = self.looks.get(u.name, {})
            at = floor(u, window.start if read.kind is ReadKind.PREVIOUS else window.end)
            if read.kind is ReadKind.PREVIOUS and at <= self.starts[u.name]:
                return bool(looks) or not u.columns.is_open
            return any(read.kind is ReadKind.LATEST or window_at(u, label).end >= at for label in looks)
        if read.kind is ReadKind.LATEST:
            if self._is_stateless(u):
                return any(self.can_be_made(*key) for key in self._wanted(u))
            return any(self.can_be_made(u.name, w.start) for w in self.due(u))
        batches = self._batches(table, read, window)
        if not batches and read.kind is ReadKind.PREVIOUS and u.columns.is_open and not self._is_circular(table, read):
            # it has no columns before its first label
            return any(self.can_be_made(u.name, w.start, by_any=by_any) for w in self.due(u))
        return all(self.can_be_made(u.name, w.start, by_any=by_any) for w in batches)

    def rows(self, name: str, window: Window) -> Rows:
        """Evaluate one batch."""
        key = (name, window.start)
        if key in self.skipped:
            return ()
        if key not in self._rows:
            table = self.flow.tables[name]
            if table.is_snapshot:
                seen: int | None = self.looks[name][window.start]
            else:
                seen = self.source.get(key, 0) if table.kind is Kind.COLLECT else None
            given = [self._given(table, read, window) for read in reads_of(table, window)]
            self._rows[key] = query(table, window, [*given, seen], self.grains[name])
        return self._rows[key]

    def due(self, table: Table) -> list[Window]:
        """List the windows from START on that are due now."""
        return [
            window
            for window in windows_of(table.cadence)
            if window.start >= self.starts[table.name] and window.end + table.cadence.delay <= self.now
        ]

    def _given(self, table: Table, read: Read, window: Window) -> object:
        u = self.flow.tables[read.table]
        batches = self._batches(table, read, window)
        rows = [(w.start.isoformat(), *row) for w in batches for row in self.rows(u.name, w)]
        if u.is_partitioned or u.mode is Mode.APPEND:
            return tuple(rows)
        if u.mode is Mode.TEMPORAL:
            there = [w for w in batches if (u.name, w.start) not in self.skipped]
            return tuple((w.start.isoformat(), self.rows(u.name, w)) for w in there)
        if u.mode is Mode.MERGE:
            return fold(self.rows(u.name, w) for w in batches)
        return tuple(row for w in batches for row in self.rows(u.name, w))

    def _batches(self, table: Table, read: Read, window: Window) -> list[Window]:
        """List the batches of u that a reference consists of, oldest first: the table of section 4."""
        u = self.flow.tables[read.table]
        s, e = window.start, window.end
        if read.kind is ReadKind.LATEST:
            tick = self.ticks[table.name, s][u.name]
            return [w for w in self._held(u, tick) if w.end == tick] if u.is_partitioned else self._state(u, tick)
        if self._is_by_label(table):
            return [w for w in self._held(u, e) if w.start >= s]
        if not u.is_partitioned:
            b = floor(u, s if read.kind is ReadKind.PREVIOUS else e)
            return [] if read.kind is ReadKind.PREVIOUS and b <= self.starts[u.name] else self._state(u, b)
        if read.kind is ReadKind.HISTORY:
            return self._held(u, floor(u, e))
        if read.kind is ReadKind.PREVIOUS:
            before = window_before(table, s)
            s, e = before.start, before.end
        elif read.kind is ReadKind.PAST and read.span is not None:
            s = earlier(e, read.span, table.cadence.zone)
        elif read.kind is ReadKind.UNTIL and read.span is not None and table.closes is not None:
            low, high = earlier(s, read.span, table.cadence.zone), self.closed[table.name, s]  # however long it is open
            return [w for w in windows_of(u.cadence) if w.start >= max(low, self.starts[u.name]) and w.end <= high]
        elif read.kind is ReadKind.UNTIL and read.span is not None:
            s, e = earlier(s, read.span, table.cadence.zone), later(e, read.span, table.cadence.zone)
        return [w for w in self._held(u, e) if w.start >= s]

    def _state(self, u: Table, b: datetime) -> list[Window]:
        """List the batches that make up u as of its boundary b."""
        if u.is_snapshot:  # the window ending at b, or the snapshot that stands for it
            windows = [window_at(u, label) for label in sorted(self.looks[u.name])]
            last = next(at for at, window in enumerate(windows, 1) if window.end >= b)
            return windows[:last] if u.mode is Mode.TEMPORAL else [windows[last - 1]]
        if u.mode is Mode.REPLACE:
            return [w for w in self._held(u, b) if w.end == b]
        return self._held(u, b)

    def _held(self, u: Table, b: datetime) -> list[Window]:
        """List the windows that u has as of b: from START on, and not dropped by RETAIN."""
        kept = self.starts[u.name]
        if u.retain is not None and u.mode is Mode.APPEND:
            kept = max(kept, earlier(b, u.retain, u.cadence.zone))
        windows = windows_of(u.cadence)
        first = bisect_left(windows, kept, key=lambda window: window.start)
        return list(takewhile(lambda window: window.end <= b, islice(windows, first, None)))

    def _wanted(self, table: Table) -> list[tuple[str, datetime]]:
        """List the batches that are wanted themselves: all, or only the newest if older ones have no readers."""
        if table.is_snapshot:
            return []
        due = self.due(table)
        is_delivered_whole = table.kind is Kind.PUBLISH and not self._is_by_label(table)
        if is_delivered_whole or self._is_stateless(table):
            due = [window for window in due if self._is_ripe(table, window)][-1:]
        return [(table.name, window.start) for window in due]

    def _is_stateless(self, table: Table) -> bool:
        """Return whether labels without readers are not needed."""
        return table.kind is Kind.TRANSFORM and table.mode is Mode.REPLACE and not self._in_circle(table)

    def _is_ripe(self, table: Table, window: Window) -> bool:
        """Return whether a window and its query's inputs are due, by any queries; LATEST reads the existing state."""
        if (table.name, window.start) in self.skipped:
            return True
        reads = [read for read in reads_of(table, window) if read.kind is not ReadKind.LATEST]
        is_due = window.end + table.cadence.delay <= self.now
        is_due = is_due and (table.closes is None or (table.name, window.start) in self.closed)
        return is_due and all(self._serves(table, read, window, by_any=True) for read in reads)

    def _upstream(self, table: Table, window: Window) -> Iterator[Key]:
        for read in reads_of(table, window):
            if not self.flow.tables[read.table].is_snapshot:
                yield from ((read.table, w.start) for w in self._batches(table, read, window))

    def _is_by_label(self, table: Table) -> bool:
        """Return whether a publish delivers each label on its own, because its destination stores labels separately."""
        if table.kind is not Kind.PUBLISH:
            return False
        return table.mode is Mode.APPEND or self.flow.tables[table.reads[0].table].is_partitioned

    def _in_circle(self, table: Table) -> bool:
        """Return whether a table reads itself, directly or through others."""
        return table.name in self._above(table.name)

    def _is_circular(self, table: Table, read: Read) -> bool:
        """Return whether a PREVIOUS read leads back to its reader."""
        above = {read.table, *self._above(read.table)}
        return read.kind is ReadKind.PREVIOUS and table.name in above

    def _above(self, name: str) -> set[str]:
        found: set[str] = set()
        to_do = [name]
        while to_do:
            for read in self.flow.tables[to_do.pop()].reads:
                if read.table not in found:
                    found.add(read.table)
                    to_do.append(read.table)
        return found

    def _start(self, table: Table) -> datetime:
        """Return the START: declared, the newest window due at the first look, or the first with all inputs."""
        if table.kind is Kind.COLLECT:
            due = [w for w in windows_of(table.cadence) if w.end + table.cadence.delay <= self.first_look]
            return floor(table, table.start) if table.start else due[-1].start
        reads = [read for read in table.reads if not self._is_circular(table, read)]
        bounding = [r for r in reads if r.kind is not ReadKind.LATEST and not self.flow.tables[r.table].is_snapshot]
        counted = bounding or reads
        begin = floor(table, table.start or _NEVER_BEFORE)
        windows = [window for window in windows_of(table.cadence) if window.start >= begin]
        if table.start is None:  # no window is made before all inputs of one of its queries exist
            queries = [[read for read in each if read in counted] for each in _queries(table)]
            windows = [
                window
                for window in windows
                if any(each and all(self._exists(table, read, window) for read in each) for each in queries)
            ]
        for place in reversed(range(len(windows))):
            window = windows[place]
            own = [read for read in reads_of(table, window) if read in counted]
            if not all(self._exists(table, read, window) for read in own):
                return windows[place + 1].start
        return windows[0].start

    def _exists(self, table: Table, read: Read, window: Window) -> bool:
        u, start = self.flow.tables[read.table], self.starts[read.table]
        s, e = window.start, window.end
        if self._is_by_label(table):
            return e > start
        if read.kind is ReadKind.PREVIOUS:
            return s >= start
        if u.is_partitioned and read.kind in {ReadKind.PLAIN, ReadKind.UNTIL}:
            return s >= start
        if u.is_partitioned and read.kind is ReadKind.PAST and read.span is not None:
            return max(s, earlier(e, read.span, table.cadence.zone)) >= start
        return floor(u, e) > start
