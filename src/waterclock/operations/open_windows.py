"""Describes the open windows of tables: their number, as of when they can be queried, and what they wait for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.flow.declarations import Table
from waterclock.flow.open_windows import open_table_of, open_windows_table, view_of
from waterclock.operations.formatting import count_words, instant_words, number_words, span_words
from waterclock.planner.metrics import Metric
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from waterclock.batches.ledger_snapshot import TableFacts
    from waterclock.operations.project_opening import OpenedProject
    from waterclock.storage.commit.log_lag import LogLag, PartitionLag
    from waterclock.storage.commit.speed_tables import TableOutage
    from waterclock.storage.lake import Lake
    from waterclock.storage.slices.manifest import Manifest

_INSTANT = timedelta(microseconds=1)
_MOST_WINDOWS = 1000


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """An open window of a table with CONTINUOUS. `rows` and `made`, the time of its newest rows, are None without rows.

    `waits` is what the window waits for. `hidden` is why its rows are not shown, "" if they are: a rule holds its batch
    or would hold it, or it reads such a window. `is_held` is true for a batch that is held.
    """

    window: Window
    waits: str
    rows: int | None = None
    made: datetime | None = None
    hidden: str = ""
    is_held: bool = False

    @property
    def label(self) -> str:
        """The label of the window."""
        return self.window.label


@dataclass(frozen=True, slots=True)
class OpenWindows:
    """The open windows of a table. `windows` is their number, `first` the start of the oldest.

    `shown`: the instant up to which their rows can be queried now; None if nothing is shown yet. For a table with
    CONTINUOUS, `tick` is the number of the newest tick, `rows` the number of its rows, `age` the time since a run last
    read all sources, `waits` what the oldest window waits for, and `labels` the newest 1000 windows, oldest first.
    `outages` are those of the table and of its inputs, whose source cannot be read or whose query fails. `log` is the
    lag of a collect from a log, such as a topic, as the newest tick that read its end found it.
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
    labels: tuple[OpenWindow, ...] = ()
    outages: tuple[TableOutage, ...] = ()
    log: LogLag | None = None

    @property
    def hidden(self) -> tuple[OpenWindow, ...]:
        """The windows whose rows are not shown."""
        return tuple(each for each in self.labels if each.hidden)

    def words(self) -> str:
        """Describe the open windows in a line."""
        begun = f"{count_words(self.windows, 'window')} open from {label_of(self.first)} on"
        waits = f"; the oldest {self.waits}" if self.waits else ""
        waits += "".join(f"; the rows of {each.label} are hidden: {each.hidden}" for each in self.hidden[-1:])
        waits += "".join(f"; {words}" for words in self.outage_words())
        waits += "" if self.log is None else f"; {lag_words(self.log, self.zone)}"
        if self.shown is None:
            return f"{begun}{waits}; {view_of(self.table)} does not show them yet"
        rows = "" if self.rows is None else f"{count_words(self.rows, 'row')} of "
        tick = "" if self.tick is None else f" (tick {self.tick}"
        age = "" if self.age is None else f", sources read {span_words(self.age)} ago"
        end = f"{tick}{age})" if tick else ""
        shown = f"{view_of(self.table)} shows {rows}them as of {instant_words(self.shown, self.zone)}{end}"
        return f"{begun}{waits}; {shown}"

    def outage_words(self) -> list[str]:
        """Describe each outage, such as `raw.a has no new rows since 2013-01-05 10:00Z: the broker does not answer`."""
        return [
            f"{each.table} has no new rows since {instant_words(each.since, self.zone)}: {each.why}"
            for each in self.outages
        ]


def lag_words(lag: LogLag, zone: str) -> str:
    """Describe the lag of a log, such as `no done batch has 3 120 offsets of 2 of 4 partitions, most of them 3`. Pure.

    The partition with the largest lag is described with the time of its newest record.
    """
    if not lag.offsets:
        return "done batches have all offsets"
    offsets = f"no done batch has {count_words(lag.offsets, 'offset')} of {number_words(lag.behind)}"
    worst = lag.worst[0]
    newest = "" if worst.newest is None else f", newest record {instant_words(worst.newest, zone)}"
    most = f"most of partition {worst.partition} ({number_words(worst.offsets)}{newest})"
    return f"{offsets} of {count_words(lag.partitions, 'partition')}, {most}"


def open_windows(at: OpenedProject, names: Collection[str]) -> dict[str, OpenWindows]:
    """Return the open windows of the tables that have them, at boundaries or at ticks.

    Cost: computing the due windows of each with CLOSE WHEN; for those with CONTINUOUS one query of the ledger in all,
    and some small files for each.
    """
    ticking = {name for name in names if at.flow.tables[name].continuous is not None}
    found: dict[str, OpenWindows] = {}
    if ticking:
        from waterclock.engine.ledger_opening import lake_of

        lake = lake_of(at.project, at.ledger)
        found = {name: windows_of_ticks(lake, at.flow.tables[name], at.snapshot.of(name), at.now) for name in ticking}
    found |= {each.table: each for name in names if name not in ticking for each in _find_open_windows(at, name)}
    return {name: found[name] for name in names if name in found}


def _find_open_windows(at: OpenedProject, name: str) -> Iterator[OpenWindows]:
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
    """Return the open windows of a table with CONTINUOUS at `now`. Windows that a rule holds are open.

    Cost: four small files, and one for each of the newest 1000 windows, from a cache if possible.
    """
    from waterclock.storage.commit.log_lag import read_log_lag
    from waterclock.storage.commit.speed_tables import read_check, read_hidden_labels, read_slices, read_state

    folder, cadence = lake.folder(open_table_of(table.name)), table.cadence
    state, check, reasons = read_state(folder), read_check(folder), read_hidden_labels(folder)
    held = {label for label, trouble in facts.troubles.items() if trouble.status is BatchStatus.HELD}
    open_labels = {each for each in (*state.slices, *reasons, *held) if not facts.covered.covers_instant(each)}
    labels = sorted({*open_labels, cadence.window_of(now).start})
    oldest = cadence.window_of(labels[0])
    newest = labels[-_MOST_WINDOWS:]
    known = replace(state, slices={label: path for label, path in state.slices.items() if label >= newest[0]})
    slices = read_slices(folder, known)
    # a tick of other tables commits the rows of an outage again
    times = [each for each in (check.at, None if check.outages else state.at) if each is not None]
    return OpenWindows(
        table.name,
        cadence.zone,
        len(labels),
        oldest.start,
        state.at,
        tick=state.tick,
        rows=sum(each.rows for label, each in slices.items() if label not in held),
        age=max(now - max(times), timedelta(0)) if times else None,
        waits=describe_wait(table, facts, oldest, now),
        labels=tuple(
            _describe_window(table, facts, label, slices.get(label), reasons.get(label, ""), now) for label in newest
        ),
        outages=check.outages,
        log=read_log_lag(folder),
    )


def _describe_window(
    table: Table, facts: TableFacts, label: datetime, made: Manifest | None, reason: str, now: datetime
) -> OpenWindow:
    window = table.cadence.window_of(label)
    waits, trouble = describe_wait(table, facts, window, now), facts.troubles.get(label)
    if trouble is not None and trouble.status is BatchStatus.HELD:
        return OpenWindow(window, waits, hidden="its batch is held", is_held=True)
    if made is None:
        return OpenWindow(window, waits, hidden=reason)
    return OpenWindow(window, waits, made.rows, made.sealed_at)


def open_window_metrics(found: Collection[OpenWindows]) -> Iterator[Metric]:
    """Yield the metrics of tables with CONTINUOUS. Pure."""
    values: tuple[tuple[str, str, Callable[[OpenWindows], float | None]], ...] = (
        ("rows", "Rows in open windows, which the view of the table shows", lambda each: each.rows),
        ("windows", "Open windows", lambda each: each.windows),
        ("hidden_windows", "Open windows whose rows a rule hides", lambda each: len(each.hidden)),
        ("tick", "Number of the newest tick", lambda each: each.tick),
        ("age_seconds", "Time since a run last read all sources", _age_seconds),
        ("tables_behind", "Tables without new rows, as a source cannot be read or a query fails", _outages),
        ("lag_offsets", "Offsets of the log that no done batch has read", _lag_offsets),
    )
    for name, about, value_of in values:
        known = {(each.table,): value_of(each) for each in found}
        there: dict[tuple[str, ...], float] = {
            table: float(value) for table, value in known.items() if value is not None
        }
        yield Metric(f"waterclock_open_{name}", about, ("table",), there)
    yield _partition_metric(
        found,
        "lag_offsets",
        "Offsets of a partition that no done batch has read, of the twenty with the most",
        lambda part: part.offsets,
    )
    yield _partition_metric(
        found,
        "newest_timestamp_seconds",
        "Time of the newest record of a partition, of the twenty with the largest lag, in seconds since 1970",
        lambda part: None if part.newest is None else part.newest.timestamp(),
    )


def _partition_metric(
    found: Collection[OpenWindows], name: str, about: str, value_of: Callable[[PartitionLag], float | None]
) -> Metric:
    known = {(each.table, part.partition): value_of(part) for each in found if each.log for part in each.log.worst}
    values: dict[tuple[str, ...], float] = {at: float(value) for at, value in known.items() if value is not None}
    return Metric(f"waterclock_open_partition_{name}", about, ("table", "partition"), values)


def _lag_offsets(each: OpenWindows) -> float | None:
    return None if each.log is None else each.log.offsets


def _age_seconds(each: OpenWindows) -> float | None:
    return None if each.age is None else each.age.total_seconds()


def _outages(each: OpenWindows) -> float:
    return len(each.outages)


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
