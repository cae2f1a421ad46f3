"""Reads the sources of collects for ticks, and computes transforms. A table that fails delays the others by seconds.

Each read has a thread of its own, which the tick waits for. After a failure, a table is read in the background, with
growing pauses, until that succeeds. So a tick waits for it once in an outage.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, TypeVar

from waterclock.engine.batch.batch_errors import batch_error
from waterclock.engine.continuous.open_labels import with_continuous_inputs
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.open_windows import continuous_tables, open_table_of
from waterclock.storage.commit.speed_tables import TableCheck, TableOutage, read_check, record_check

Rows = TypeVar("Rows")

MOST_SECONDS = 10.0
"""How long a tick waits, in all, for sources that do not answer."""
MOST_QUERY_SECONDS = 60.0
"""How long a tick waits, in all, for queries of transforms that do not end."""
COLD_SECONDS = 120.0
"""How long a tick waits while Spark is not started, as the first read may start it."""
_CLOSE_SECONDS = 5.0
_LEAST_SECONDS = 1.0  # for each further table, once a tick has waited in vain
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # between the end of a failed read and the next one
_PAUSES = 4  # of the time of a failed read: a heavy query that fails takes at most a fifth of the time


class Outages:
    """Reports each outage once, and its end. Used by several threads."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._current: dict[str, TableOutage] = {}

    @property
    def current(self) -> Mapping[str, TableOutage]:
        """The outages that have not ended, by name."""
        with self._lock:
            return dict(self._current)

    def begin(self, name: str, why: str, now: datetime) -> None:
        """Note that `name`, a table or "" for a whole tick, has no new rows. Report it if it had some before."""
        with self._lock:
            known = self._current.get(name)
            self._current[name] = TableOutage(name, now if known is None else known.since, why)
        if known is None:
            self._report(f"{_subject(name)} are not up to date: {why}")

    def end(self, name: str) -> None:
        """Note that the outage of `name` is over, if there was one. Report it."""
        with self._lock:
            known = self._current.pop(name, None)
        if known is not None:
            self._report(f"{_subject(name)} are up to date again")


def _subject(name: str) -> str:
    return f"open windows of {name}" if name else "open windows"


class Attempt(threading.Thread, Generic[Rows]):
    """A read of a table's source, or its query, in a thread that does not delay the end of the process."""

    def __init__(self, name: str, read: Callable[[], Rows]) -> None:
        super().__init__(name=f"open {name}", daemon=True)
        self._table, self._read = name, read
        self.rows: Rows | None = None
        self.error: WaterclockError | None = None
        self.seconds = 0.0

    def run(self) -> None:
        """Keep the rows, or the error."""
        began = time.monotonic()
        try:
            self.rows = self._read()
        except BaseException as raised:  # noqa: BLE001 - the tick reports it, and goes on with the other tables
            self.error = to_error(raised, where=self._table)
        self.seconds = time.monotonic() - began


def read_or_explain(work: RunContext, table: Table, read: Callable[[Table], Rows]) -> Rows:
    """Return the rows of a table. Raises the error that a batch of the table would raise, with its file and line."""
    try:
        return read(table)
    except Exception as raised:
        raise batch_error(work, table, raised, table.name) from raised


def _describe(name: str, error: WaterclockError) -> str:
    """Return the message of an error of a table, with the place in a file or query that it names, and the fix."""
    place = (error.where or "").removesuffix(f" ({name})")
    return error.what if place in {"", name} else f"{error.what} ({place}); {error.fix}"


@dataclass(slots=True)
class _TableState(Generic[Rows]):
    """What is known of a table. `attempt` is a read in the background; `answers` is true if the newest one succeeded.

    `patience` is twice the duration of the newest successful read in seconds, and `next_try` the monotonic time of the
    next read during an outage. `reading_at` is the time of the tick that read it last, and `read_at` that of the last
    one whose rows are committed.
    """

    patience: float = 0.0
    attempt: Attempt[Rows] | None = None
    answers: bool = True
    pause: float = 0.0
    next_try: float = 0.0
    reading_at: datetime | None = None
    read_at: datetime | None = None


class TableReads(Generic[Rows]):
    """Reads tables for ticks, and knows the outages. Call its methods from one thread. `report` gets the messages.

    In all, a tick waits for sources that do not answer for at most `most_seconds`, and a second more for each of them
    after the first. Queries have `MOST_QUERY_SECONDS`. If the newest successful read of a table took longer than half
    of that, the tick waits for twice its duration. Each table has at most one read at a time.
    """

    def __init__(
        self,
        report: Callable[[str], None],
        *,
        most_seconds: float = MOST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.outages = Outages(report)
        self._most_seconds, self._clock = most_seconds, clock
        self._tables: dict[str, _TableState[Rows]] = {}
        self._left, self._left_for_queries = most_seconds, MOST_QUERY_SECONDS
        self.recorded: frozenset[str] = frozenset()
        """The tables whose outages `record_checks` has recorded."""

    def start_tick(self, *, is_cold: bool = False) -> None:
        """Start a tick. `is_cold`: Spark is not started."""
        for table in self._tables.values():
            table.reading_at = table.read_at
        least = COLD_SECONDS if is_cold else 0.0
        self._left, self._left_for_queries = max(least, self._most_seconds), max(least, MOST_QUERY_SECONDS)

    def end_tick(self) -> None:
        """Note that the rows of a tick are committed. A tick that another runner overtook was in vain."""
        for table in self._tables.values():
            table.read_at = table.reading_at

    def read_time(self, name: str) -> datetime | None:
        """Return the time of the newest tick with rows of a table; None if there was none since the run began."""
        return self._tables[name].read_at if name in self._tables else None

    def read(self, name: str, read: Callable[[], Rows], now: datetime, *, is_query: bool = False) -> Rows | None:
        """Return the rows of a table, or None if they cannot be had in this tick, which then keeps its last rows.

        `now` is the time of the tick. `is_query`: `read` computes a transform. During an outage, `read` runs in the
        background and its rows are dropped: they only show that the next tick can succeed.
        """
        table = self._tables.setdefault(name, _TableState())
        if table.attempt is not None:
            if table.attempt.is_alive():
                return None
            attempt, table.attempt = table.attempt, None
            self._note(name, table, attempt, now)
        if not table.answers:
            if self._clock() >= table.next_try:
                table.attempt = Attempt(name, read)
                table.attempt.start()
            return None
        attempt = Attempt(name, read)
        attempt.start()
        seconds = max(table.patience, self._left_for_queries if is_query else self._left, _LEAST_SECONDS)
        attempt.join(seconds)
        if attempt.is_alive():
            table.attempt, table.answers = attempt, False
            self.outages.begin(name, self._note_silence(seconds, is_query=is_query), now)
            return None
        self._note(name, table, attempt, now)
        if attempt.error is None:
            table.pause, table.reading_at = 0.0, now
            self.outages.end(name)
        return attempt.rows

    def close(self) -> None:
        """Wait for reads in the background. One that goes on for more than five seconds ends with the process."""
        end = time.monotonic() + _CLOSE_SECONDS
        for table in self._tables.values():
            if table.attempt is not None:
                table.attempt.join(max(0.0, end - time.monotonic()))

    def _note_silence(self, seconds: float, *, is_query: bool) -> str:
        if is_query:
            self._left_for_queries -= seconds
            return f"its query did not end within {seconds:.0f} seconds"
        self._left -= seconds
        return f"its source did not answer within {seconds:.0f} seconds"

    def _note(self, name: str, table: _TableState[Rows], attempt: Attempt[Rows], now: datetime) -> None:
        table.answers = attempt.error is None
        if attempt.error is None:
            table.patience = 2 * attempt.seconds
            return
        table.pause = min(_LONGEST_PAUSE, max(_FIRST_PAUSE, 2 * table.pause))
        table.next_try = self._clock() + max(table.pause, _PAUSES * attempt.seconds)
        self.outages.begin(name, _describe(name, attempt.error), now)


def record_checks(work: RunContext, reads: TableReads[Rows], now: datetime, *, is_committed: bool = True) -> None:
    """Record for each table that it was read at `now`, or when it was last read, and the outages.

    `is_committed`: the rows of the tick are visible. Before that, only outages are recorded. Cost: two small files for
    each table.
    """
    folders = {each.name: work.lake.folder(open_table_of(each.name)) for each in continuous_tables(work.flow)}
    current = reads.outages.current
    known = {name: read_check(folder) for name, folder in folders.items() if name in current or not is_committed}
    times = {name: reads.read_time(name) for name in current}
    for name, check in find_checks(work.flow, current, times, known, now, is_committed=is_committed).items():
        if check.outages or is_committed:
            record_check(folders[name], check.at, check.outages)
    reads.recorded = frozenset(current)


def find_checks(
    flow: Flow,
    outages: Mapping[str, TableOutage],
    times: Mapping[str, datetime | None],
    known: Mapping[str, TableCheck],
    now: datetime,
    *,
    is_committed: bool = True,
) -> dict[str, TableCheck]:
    """Return what is to be recorded for each table with CONTINUOUS in a tick at `now`. Pure.

    `times` are the newest reads of the tables with an outage in this run, and `known` what is recorded for them: an
    outage that an earlier run recorded goes on. A table that is made of several tables was read when the first of
    them had an outage. Before a tick is committed (`is_committed`), the times stay as they are in `known`, which then
    has all tables: the rows of another runner may be older.
    """
    found: dict[str, TableCheck] = {}
    for table in continuous_tables(flow):
        inputs = sorted(with_continuous_inputs(flow, [table.name]) & outages.keys())
        behind = [_continue_outage(outages[name], times[name], known[name]) for name in inputs]
        read = [each.at for each in behind if each.at is not None]
        at = min(read, default=now) if len(read) == len(behind) else None
        at = at if is_committed else known[table.name].at
        found[table.name] = TableCheck(at, tuple(outage for each in behind for outage in each.outages))
    return found


def _continue_outage(outage: TableOutage, read_at: datetime | None, known: TableCheck) -> TableCheck:
    since = min([outage.since, *(each.since for each in known.outages if each.table == outage.table)])
    at = max((each for each in (read_at, known.at) if each is not None), default=None)
    return TableCheck(at, (replace(outage, since=since),))
