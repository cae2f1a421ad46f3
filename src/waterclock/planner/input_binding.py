"""Binds each reference of a batch to the interval that it reads, by the rules of docs/explain/consistency.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from waterclock.batches.ledger_snapshot import InputFact
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Read, Table
from waterclock.flow.enums import Mode, ReadKind
from waterclock.planner.plan import BoundRead, ReadScope
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.window import Window

_NO_TICKS: Mapping[str, datetime] = {}


def bind(
    table: Table,
    window: Window,
    flow: Flow,
    starts: Mapping[str, datetime],
    latest: Mapping[str, datetime] = _NO_TICKS,
    *,
    reads: Iterable[Read] | None = None,
    closing: datetime | None = None,
) -> tuple[BoundRead, ...]:
    """Bind the references of `table` for the batch of `window` to intervals, in the order of its references.

    `reads` limits the result to some references. `starts` has the START of every table, `latest` the stored tick of
    LATEST by table read. PREVIOUS is empty before the START of the table that it reads. Other reads of a snapshot
    before START return the first snapshot. `closing` is the tick at which the window closed (CLOSE WHEN), and UNTIL
    reads up to it. UNTIL of an open window is bound up to the window's end. Raises E501 if LATEST has no tick yet.
    """
    wanted = table.reads_for_window(window) if reads is None else reads
    return tuple(_bind_read(table, read, window, flow, starts, latest, closing) for read in wanted)


def bind_read(table: Table, read: Read, window: Window, flow: Flow, starts: Mapping[str, datetime]) -> BoundRead:
    """Bind one reference other than LATEST, by the rules of `bind`."""
    return _bind_read(table, read, window, flow, starts, _NO_TICKS)


def until_start(table: Table, span: Duration, s: datetime) -> datetime:
    """Return the instant from which UNTIL reads for a window that starts at `s`.

    It is before `s`, because a source with a fast clock sends rows too early.
    """
    return span.subtract_from(s, table.cadence.zone)


def until_end(table: Table, span: Duration, e: datetime) -> datetime:
    """Return the instant up to which UNTIL reads for a window that ends at `e`."""
    return span.add_to(e, table.cadence.zone)


def _bind_read(
    table: Table,
    read: Read,
    window: Window,
    flow: Flow,
    starts: Mapping[str, datetime],
    latest: Mapping[str, datetime],
    closing: datetime | None = None,
) -> BoundRead:
    u = flow.tables[read.table]
    start = starts[u.name]
    if read.kind is ReadKind.LATEST:
        return _bind_tick(read, u, start, _read_tick(table, read, window, latest))
    if u.is_partitioned or table.is_delivered_by_label:
        bound = _slices(table, read, u, window, start, closing)
    else:
        tick = u.cadence.floor(window.start if read.kind is ReadKind.PREVIOUS else window.end)
        bound = _state(read, u, start, tick)
    if table.is_delivered_by_label or read.kind is ReadKind.PREVIOUS:
        return _cut_at_start(bound, start)
    return bound


def _slices(table: Table, read: Read, u: Table, window: Window, start: datetime, closing: datetime | None) -> BoundRead:
    low, high = window.start, window.end
    if read.kind is ReadKind.PAST and read.span is not None:
        low = max(u.cadence.ceil(read.span.subtract_from(high, table.cadence.zone)), start)
    elif read.kind is ReadKind.UNTIL and read.span is not None and table.closes is not None:
        # not cut at RETAIN: the inputs of an open window are kept for it, however long it is open
        low, high = max(until_start(table, read.span, low), start), high if closing is None else closing
        return BoundRead(read, ReadScope.SLICES, min(low, high), high)
    elif read.kind is ReadKind.UNTIL and read.span is not None and table.open_of is not None:
        low = max(until_start(table, read.span, low), start)  # a lower bound: `open_windows` sets it per window
    elif read.kind is ReadKind.UNTIL and read.span is not None:
        low, high = max(until_start(table, read.span, window.start), start), until_end(table, read.span, window.end)
    elif read.kind is ReadKind.HISTORY:
        low, high = start, u.cadence.floor(high)
    elif read.kind is ReadKind.PREVIOUS and read.span is not None:
        low, high = u.cadence.ceil(read.span.subtract_from(high, table.cadence.zone)), low
    elif read.kind is ReadKind.PREVIOUS:
        low, high = table.cadence.previous(low), low
    return BoundRead(read, ReadScope.SLICES, _cut_at_retain(u, min(low, high), high), high)


def _state(read: Read, u: Table, start: datetime, tick: datetime) -> BoundRead:
    if u.mode is Mode.REPLACE:
        return BoundRead(read, ReadScope.STATE, u.cadence.previous(tick), tick)
    if u.is_snapshot:  # the first one covers all earlier windows
        return BoundRead(read, ReadScope.STATE, min(start, u.cadence.previous(tick)), tick)
    return BoundRead(read, ReadScope.STATE, _cut_at_retain(u, min(start, tick), tick), tick)


def _bind_tick(read: Read, u: Table, start: datetime, tick: datetime) -> BoundRead:
    if u.is_partitioned:
        return BoundRead(read, ReadScope.SLICES, u.cadence.previous(tick), tick)
    return _state(read, u, start, tick)


def _cut_at_retain(u: Table, low: datetime, high: datetime) -> datetime:
    """Limit the lower bound of an interval by RETAIN d: as of b an APPEND table has the windows in `[b - d, b)`."""
    if u.retain is None or u.mode is not Mode.APPEND:
        return low
    return min(max(low, u.cadence.ceil(u.retain.subtract_from(high, u.cadence.zone))), high)


def _cut_at_start(bound: BoundRead, start: datetime) -> BoundRead:
    """Limit a read to START and later. A read that ends at START or earlier becomes empty."""
    if bound.low >= start:
        return bound
    high = max(bound.high, start)
    return BoundRead(bound.read, bound.scope, start, high)


def _read_tick(table: Table, read: Read, window: Window, latest: Mapping[str, datetime]) -> datetime:
    tick = latest.get(read.table)
    if tick is None:
        raise WaterclockError(
            "E501",
            f"{read} has no tick yet",
            where=f"{table.name}@{window.label}",
            why=f"LATEST picks its tick at the first run, and waits for the first batch of {read.table}",
            fix=f"run {read.table} first",
        )
    return tick


def reads_otherwise(reads: Sequence[BoundRead], before: Sequence[InputFact]) -> bool:
    """Return whether a batch would read other tables or intervals than it did `before`."""
    then = [(each.table, each.low, each.high) for each in before]
    return then != [(each.read.table, each.low, each.high) for each in reads]


def starts_earlier(reads: Sequence[BoundRead], before: Sequence[InputFact]) -> bool:
    """Return whether a read of a batch starts before the one that it made `before`, so that it has more input."""
    return len(reads) == len(before) and any(
        now.read.table == then.table and now.low < then.low for now, then in zip(reads, before, strict=True)
    )
