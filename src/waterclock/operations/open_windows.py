"""Describes the open windows of tables: their number, as of when they can be queried, and what they wait for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from waterclock.flow.declarations import Table
from waterclock.flow.open_windows import open_table_of, open_windows_table, view_of
from waterclock.operations.formatting import count_words, instant_words, span_words
from waterclock.planner.metrics import Metric
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from waterclock.batches.ledger_snapshot import TableFacts
    from waterclock.operations.project_opening import OpenedProject
    from waterclock.storage.lake import Lake

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class OpenWindows:
    """The open windows of a table. `windows` is their number, `first` the start of the oldest.

    `shown`: the instant up to which their rows can be queried now; None if nothing is shown yet. For a table with
    CONTINUOUS, `tick` is the number of the newest tick, `rows` the number of its rows, `age` the time since a run last
    read the sources, and `waits` what the oldest window waits for.
    """

    table: str
    zone: str
    windows: int
    first: datetime
    shown: datetime | None
    tick: int | None = None
    rows: int | None = None
    age: timedelta | None = None
    waits: str = ""

    def words(self) -> str:
        """Describe the open windows in a line."""
        begun = f"{count_words(self.windows, 'window')} open from {label_of(self.first)} on"
        waits = f"; the oldest {self.waits}" if self.waits else ""
        if self.shown is None:
            return f"{begun}{waits}; {view_of(self.table)} does not show them yet"
        rows = "" if self.rows is None else f"{count_words(self.rows, 'row')} of "
        tick = "" if self.tick is None else f" (tick {self.tick}"
        age = "" if self.age is None else f", sources read {span_words(self.age)} ago"
        end = f"{tick}{age})" if tick else ""
        shown = f"{view_of(self.table)} shows {rows}them as of {instant_words(self.shown, self.zone)}{end}"
        return f"{begun}{waits}; {shown}"


def open_windows(at: OpenedProject, names: Collection[str]) -> dict[str, OpenWindows]:
    """Return the open windows of the tables that have them, at boundaries or at ticks.

    Cost: computing the due windows of each with CLOSE WHEN; a small file for each open label of those with CONTINUOUS.
    """
    return {found.table: found for name in names for found in _find_open_windows(at, name)}


def _find_open_windows(at: OpenedProject, name: str) -> Iterator[OpenWindows]:
    if at.flow.tables[name].continuous is not None:
        from waterclock.engine.ledger_opening import lake_of

        yield windows_of_ticks(lake_of(at.project, at.ledger), at.flow.tables[name], at.snapshot.of(name), at.now)
        return
    speed_table = open_windows_table(at.flow, name)
    if speed_table is None:
        return
    books = at.planner.books_of(at.snapshot, at.now, name)
    cadence = books.table.cadence
    begun, first = cadence.window_of(at.now - _INSTANT), books.first_open()
    start = max(books.starts[name], begun.start if first is None else first.start)
    made = list(at.snapshot.of(speed_table.name).covered)
    count = cadence.count(start, max(begun.end, start))
    yield OpenWindows(name, cadence.zone, count, start, made[-1][1] if made else None)


def windows_of_ticks(lake: Lake, table: Table, facts: TableFacts, now: datetime) -> OpenWindows:
    """Return the open windows of a table with CONTINUOUS at `now`. Cost: a small file for each."""
    from waterclock.storage.commit.speed_tables import read_check_time, read_slices, read_state

    folder, cadence = lake.folder(open_table_of(table.name)), table.cadence
    state, checked = read_state(folder), read_check_time(folder)
    current = cadence.window_of(now)
    labels = sorted({*(each for each in state.slices if not facts.covered.covers_instant(each)), current.start})
    oldest = cadence.window_of(labels[0])
    times = [each for each in (checked, state.at) if each is not None]
    return OpenWindows(
        table.name,
        cadence.zone,
        len(labels),
        oldest.start,
        state.at,
        tick=state.tick,
        rows=sum(each.rows for label, each in read_slices(folder, state).items() if label in labels),
        age=max(now - max(times), timedelta(0)) if times else None,
        waits=describe_wait(table, facts, oldest, now),
    )


def open_window_metrics(found: Collection[OpenWindows]) -> Iterator[Metric]:
    """Yield the metrics of tables with CONTINUOUS. Pure."""
    values: tuple[tuple[str, str, Callable[[OpenWindows], float | None]], ...] = (
        ("rows", "Rows in open windows, which the view of the table shows", lambda each: each.rows),
        ("tick", "Number of the newest tick", lambda each: each.tick),
        ("age_seconds", "Time since a run last read the sources", _age_seconds),
    )
    for name, about, value_of in values:
        known = {(each.table,): value_of(each) for each in found}
        there: dict[tuple[str, ...], float] = {
            table: float(value) for table, value in known.items() if value is not None
        }
        yield Metric(f"waterclock_open_{name}", about, ("table",), there)


def _age_seconds(each: OpenWindows) -> float | None:
    return None if each.age is None else each.age.total_seconds()


def describe_wait(table: Table, facts: TableFacts, window: Window, now: datetime) -> str:
    """Describe what an open window waits for: its end, its DELAY, or its batch. Pure."""
    zone, due = table.cadence.zone, table.cadence.due_at(window)
    if now < window.end:
        return f"ends at {instant_words(window.end, zone)}"
    if now < due:
        return f"waits for its DELAY until {instant_words(due, zone)}"
    trouble = facts.troubles.get(window.start)
    if trouble is not None:
        return f"waits for its batch, which is {trouble.status}"
    if facts.paused is not None:
        return "waits for its batch, which is paused"
    if any(window.start in claim.labels for claim in facts.open_claims):
        return "waits for its batch, which is running"
    return "waits for its batch"
