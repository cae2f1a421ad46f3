"""Finds windows that miss their DEADLINE or probably will, slow batches, and the causes.

A window must be done within its DEADLINE after its end. BY WATERMARK, the table's watermark must have reached the end
by then. Windows whose deadline had passed before their table was first claimed are history and do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.batches.progress_records import MadeLabel, RunningClaim
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.watermarks import find_earliest_advance, mark_of
from waterclock.operations.freshness import fresh_to
from waterclock.operations.time_estimates import RemainingTimes, Root, add_upstream
from waterclock.operations.watermarks import WatermarkPosition, needed_end, reached_words, read_watermarks
from waterclock.planner.plan import Plan, Status
from waterclock.planner.request import PlanRequest
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from waterclock.ledger.sections.past import PastSection
    from waterclock.operations.project_opening import OpenedProject

_NOTHING = timedelta(0)


class DeadlineState(StrEnum):
    """The state of a window relative to its DEADLINE, or of a batch relative to its RUNTIME."""

    MISSED = "missed"
    NEAR = "near"
    LONG = "long"


@dataclass(frozen=True, slots=True)
class DeadlineWindow:
    """A window that has missed its deadline or is near it, or whose batch took longer than its RUNTIME.

    `by`: the deadline. `left`: the usual duration of the remaining work, as far as it is known; for a slow batch, the
    time it took so far. `fresh_to`: the end of the table's newest done window. `reached`: for a deadline BY WATERMARK,
    how far the rows of the table have come. `late_rows`: the same for the table in `root`, if late rows are the cause
    instead of a batch.
    """

    table: str
    window: Window
    by: datetime
    situation: DeadlineState
    status: Status
    root: Root
    left: timedelta = _NOTHING
    fresh_to: datetime | None = None
    reached: WatermarkPosition | None = None
    late_rows: WatermarkPosition | None = None


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The windows of a flow that missed their DEADLINE or are near it, and the batches that exceed their RUNTIME."""

    flow: Flow
    found: tuple[DeadlineWindow, ...] = ()


NO_DEADLINES = Deadlines(Flow(project="", tables={}))


def deadlines(at: OpenedProject, names: Collection[str]) -> Deadlines:
    """Return the windows of some tables that missed their deadlines or are near them, upstream first, oldest first.

    Cost: nothing if no table has a deadline. Otherwise a plan of these tables and all upstream of them, and up to four
    queries of the ledger, plus one for each table with a WATERMARK if a deadline is BY WATERMARK.
    """
    with_deadline = tables_with_deadlines(at.flow, names)
    if not with_deadline or at.ledger is None:
        return NO_DEADLINES
    plan = at.planner.plan(
        at.snapshot, at.now, PlanRequest(only=_find_tables_to_check(at.flow, with_deadline), clock=at.ledger.now())
    )
    found = deadlines_of(at.flow, at.snapshot, plan, at.ledger.past, at.ledger.now(), with_deadline)
    return Deadlines(at.flow, found)


def tables_with_deadlines(flow: Flow, names: Iterable[str]) -> list[str]:
    """Return the tables that have a deadline."""
    return [name for name in names if flow.tables[name].deadline is not None]


def _find_tables_to_check(flow: Flow, names: Collection[str]) -> set[str]:
    """Return the given tables, the tables that keep their watermarks, and all upstream of them."""
    marks = [mark_of(name) for name in names if flow.tables[name].is_by_watermark]
    return add_upstream(flow, [*names, *marks])


def deadlines_of(
    flow: Flow, snapshot: LedgerSnapshot, plan: Plan, past: PastSection, clock: datetime, names: Collection[str]
) -> tuple[DeadlineWindow, ...]:
    """Find windows as `deadlines` does, by a plan of the tables and all upstream. `clock` is the ledger's real time."""
    if not names:
        return ()
    timed = [name for name in names if flow.tables[name].runtime is not None]
    work = past.list_open_claims(sorted(_find_tables_to_check(flow, names)))
    marked = add_upstream(flow, [name for name in names if flow.tables[name].is_by_watermark])
    reached = read_watermarks(flow, past, sorted(marked))
    found = [*due_of(flow, snapshot, plan, names, _measure_elapsed(work, clock), reached)]
    if any(due.situation is DeadlineState.MISSED for due in found):
        began = past.began_by(sorted({due.table for due in found}))
        if older := {due.table for due in found if due.table in began and is_history(due, began[due.table])}:
            began |= past.began(sorted(older))
        found = [due for due in found if not is_history(due, began.get(due.table))]
    newest = past.list_newest_labels(timed, 1) if timed else {}
    found += find_slow_batches(flow, snapshot, newest, [each for each in work if each.table in timed], clock)
    return tuple(found)


def is_history(due: DeadlineWindow, began: datetime | None) -> bool:
    """Return whether a deadline passed before its table started. A table without any claim has not started."""
    return due.situation is DeadlineState.MISSED and (began is None or due.by <= began)


def due_of(
    flow: Flow,
    snapshot: LedgerSnapshot,
    plan: Plan,
    names: Collection[str],
    elapsed: Mapping[tuple[str, datetime], timedelta] | None = None,
    reached: Mapping[str, Sequence[WatermarkPosition]] | None = None,
) -> Iterator[DeadlineWindow]:
    """Yield the windows that have missed their deadline or are near it. Pure; some microseconds per planned batch.

    A window is near its deadline if the remaining work, at its usual pace, would miss it. A stopped or paused window is
    also near once half of the time from its due instant to its deadline has passed. `elapsed`: how long running batches
    have run. `reached`: how far tables have come, newest last; without an entry nothing is known about a deadline BY
    WATERMARK.
    """
    times = RemainingTimes.compute(flow, snapshot, plan, elapsed or {})
    for batch in plan.batches:
        table = flow.tables[batch.table]
        remaining = times.to(batch.table, batch.label)
        if (
            table.deadline is None
            or batch.table not in names
            or batch.is_revision
            or table.is_by_watermark
            or not remaining
        ):
            continue
        by = table.deadline.add_to(batch.window.end, table.cadence.zone)
        due = table.cadence.due_at(batch.window)
        if by <= plan.now:
            situation = DeadlineState.MISSED
        elif plan.now + remaining.left > by or (remaining.rank and plan.now - due >= (by - due) / 2):
            situation = DeadlineState.NEAR
        else:
            continue
        yield DeadlineWindow(
            batch.table,
            batch.window,
            by,
            situation,
            batch.status,
            remaining.root,
            remaining.left,
            fresh_to(table, snapshot),
        )
    marked = {name: dict[datetime, Status]() for name in names if flow.tables[name].is_by_watermark}
    for batch in plan.batches if marked else ():
        if batch.table in marked:
            marked[batch.table][batch.label] = batch.status
    for name, planned in marked.items():
        yield from _find_watermark_misses(flow.tables[name], times, plan.now, planned, reached or {})


def _find_watermark_misses(
    table: Table,
    times: RemainingTimes,
    now: datetime,
    planned: Mapping[datetime, Status],
    reached: Mapping[str, Sequence[WatermarkPosition]],
) -> Iterator[DeadlineWindow]:
    """Yield the windows of a table whose end the watermark did not reach in time, or probably will not.

    A window is near its deadline if the watermark, at its pace so far, will reach the window's end after the deadline.
    If the work is stopped or the watermark does not move, the window is near once half of its time has passed.
    """
    before = times.snapshot.of(table.name)
    marks, mark = reached.get(table.name, ()), times.flow.tables[mark_of(table.name)]
    if table.deadline is None or mark.marks is None or before.start is None or (times.is_made(mark.name) and not marks):
        return
    cadence, last = table.cadence, marks[-1] if marks else WatermarkPosition(before.start)
    of_rows: tuple[Root, WatermarkPosition] | None = None
    for window in cadence.windows(_oldest_unreached_window(cadence, before.start, last), cadence.floor(now)):
        by = table.deadline.add_to(window.end, cadence.zone)
        earliest = find_earliest_advance(cadence, window.end, mark.marks)
        remaining, needed = (
            times.to_mark(table, earliest),
            needed_end(marks, window.end, earliest) if marks else earliest,
        )
        is_late = needed is not None and (needed > by or now + times.to_mark(table, needed).left > by)
        since = cadence.due_at(cadence.window_of(cadence.previous(earliest)))
        if by <= now:
            situation = DeadlineState.MISSED
        elif is_late or ((needed is None or remaining.rank) and now - since >= (by - since) / 2):
            situation = DeadlineState.NEAR
        else:
            continue
        is_done = before.covered.covers_instant(window.start)
        status = planned.get(window.start, Status.DONE if is_done else Status.WAITING)
        due = DeadlineWindow(
            table.name,
            window,
            by,
            situation,
            status,
            remaining.root,
            remaining.left,
            fresh_to(table, times.snapshot),
            last,
        )
        is_behind = bool(remaining.rank) or now + remaining.left > by
        if not marks or (last.end < earliest and is_behind):
            yield due
            continue
        of_rows = of_rows or _find_root_of_late_rows(table, times.flow, reached)
        yield replace(due, root=of_rows[0], left=_NOTHING, late_rows=of_rows[1]) if of_rows else due


def _oldest_unreached_window(cadence: Cadence, start: datetime, last: WatermarkPosition) -> datetime:
    """Return the start of the oldest window whose end the watermark has not reached."""
    watermark = last.watermark
    return (
        cadence.ceil(start)
        if watermark is None or watermark <= start
        else max(cadence.ceil(start), cadence.floor(watermark))
    )


def _find_root_of_late_rows(
    table: Table, flow: Flow, reached: Mapping[str, Sequence[WatermarkPosition]]
) -> tuple[Root, WatermarkPosition] | None:
    """Find the cause of late rows: the most upstream table whose rows are as late, by the same time column.

    Return the last window of that table and its watermark, or None.
    """
    above, declared = add_upstream(flow, [table.name]), flow.tables[mark_of(table.name)].marks
    for name in (name for name in flow.order if name in above and name in reached):
        own, found, other = flow.tables[mark_of(name)].marks, reached[name][-1], flow.tables[name]
        if own is None or declared is None or own.column.lower() != declared.column.lower():
            continue
        if _are_rows_as_late(found, reached[table.name][-1]):
            window = other.cadence.window_of(other.cadence.previous(found.end))
            return Root(name, window, Status.DONE, reached_words(other, found, own.per)), found
    return None


def _are_rows_as_late(found: WatermarkPosition, own: WatermarkPosition) -> bool:
    return found.slowest_at is None or (own.slowest_at is not None and found.slowest_at <= own.slowest_at)


def find_slow_batches(
    flow: Flow,
    snapshot: LedgerSnapshot,
    newest: Mapping[str, Sequence[MadeLabel]],
    work: Iterable[RunningClaim],
    clock: datetime,
) -> Iterator[DeadlineWindow]:
    """Yield the batches that exceed RUNTIME: running batches, or else the newest done batch of a table.

    A running claim of several labels may take RUNTIME for each.
    """
    running: set[str] = set()
    for each in work:
        table = flow.tables[each.table]
        took = clock - each.since
        if table.runtime is not None and took > table.runtime.to_timedelta() * each.labels:
            running.add(each.table)
            yield _build_slow_window(table, table.cadence.window_of(each.first), Status.RUNNING, took, snapshot)
    for name, labels in newest.items():
        table = flow.tables[name]
        if (
            name not in running
            and table.runtime is not None
            and labels
            and labels[-1].took > table.runtime.to_timedelta()
        ):
            window = Window(labels[-1].label, labels[-1].end)
            yield _build_slow_window(table, window, Status.DONE, labels[-1].took, snapshot)


def _build_slow_window(
    table: Table, window: Window, status: Status, took: timedelta, snapshot: LedgerSnapshot
) -> DeadlineWindow:
    by = window.end if table.deadline is None else table.deadline.add_to(window.end, table.cadence.zone)
    root = Root(table.name, window, status)
    return DeadlineWindow(table.name, window, by, DeadlineState.LONG, status, root, took, fresh_to(table, snapshot))


def _measure_elapsed(work: Iterable[RunningClaim], clock: datetime) -> dict[tuple[str, datetime], timedelta]:
    return {(each.table, each.first): (clock - each.since) / each.labels for each in work}
