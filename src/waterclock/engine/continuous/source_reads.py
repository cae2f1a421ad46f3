"""Reads the sources of collects for ticks. A source that cannot be read delays the other tables for some seconds only.

Each read has a thread of its own, which the tick waits for. After a failure, a source is read in the background, with
growing pauses, until it answers. So a tick waits for it once in an outage.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, TypeVar

from waterclock.engine.continuous.open_labels import with_continuous_inputs
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.flow.open_windows import continuous_tables, open_table_of
from waterclock.storage.commit.speed_tables import SourceCheck, SourceOutage, read_check, record_check

Rows = TypeVar("Rows")

MOST_SECONDS = 10.0
"""How long a tick waits, in all, for sources that do not answer."""
COLD_SECONDS = 120.0
"""How long a tick waits while Spark is not started, as the first read may start it."""
_CLOSE_SECONDS = 5.0
_LEAST_SECONDS = 1.0  # for each further source, once a tick has waited in vain
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # between the end of a failed read and the next one


class Outages:
    """Reports each outage once, and its end. Used by several threads."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._current: dict[str, SourceOutage] = {}

    @property
    def current(self) -> Mapping[str, SourceOutage]:
        """The outages that have not ended, by name."""
        with self._lock:
            return dict(self._current)

    def begin(self, name: str, why: str, now: datetime) -> None:
        """Note that `name`, a table or "" for a whole tick, cannot be read. Report it if it could be read before."""
        with self._lock:
            known = self._current.get(name)
            self._current[name] = SourceOutage(name, now if known is None else known.since, why)
        if known is None:
            self._report(f"{_subject(name)} are not up to date: {why}")

    def end(self, name: str) -> None:
        """Note that `name` can be read. Report it if it could not be read before."""
        with self._lock:
            known = self._current.pop(name, None)
        if known is not None:
            self._report(f"{_subject(name)} are up to date again")


def _subject(name: str) -> str:
    return f"open windows of {name}" if name else "open windows"


class Attempt(threading.Thread, Generic[Rows]):
    """A read of a source, in a thread that does not delay the end of the process."""

    def __init__(self, name: str, read: Callable[[], Rows]) -> None:
        super().__init__(name=f"open {name}", daemon=True)
        self._table, self._read = name, read
        self.rows: Rows | None = None
        self.error: WaterclockError | None = None
        self.seconds = 0.0

    def run(self) -> None:
        """Read the source, and keep its rows or its error."""
        began = time.monotonic()
        try:
            self.rows = self._read()
        except BaseException as raised:  # noqa: BLE001 - the tick reports it, and goes on with the other tables
            self.error = to_error(raised, where=self._table)
        self.seconds = time.monotonic() - began


@dataclass(slots=True)
class _Source(Generic[Rows]):
    """What is known of a source. `attempt` is a read in the background; `answers` is true if the newest one succeeded.

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


class SourceReads(Generic[Rows]):
    """Reads sources for ticks, and knows the outages. Call its methods from one thread. `report` gets the messages.

    In all, a tick waits for sources that do not answer for at most `most_seconds`, and a second more for each of them
    after the first. If the newest successful read of a source took longer than half of that, the tick waits for twice
    its duration. Each source has at most one read at a time.
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
        self._sources: dict[str, _Source[Rows]] = {}
        self._left = most_seconds
        self.recorded: frozenset[str] = frozenset()
        """The tables whose outages `record_checks` has recorded."""

    def start_tick(self, *, is_cold: bool = False) -> None:
        """Start a tick. `is_cold`: Spark is not started."""
        for source in self._sources.values():
            source.reading_at = source.read_at
        self._left = max(COLD_SECONDS, self._most_seconds) if is_cold else self._most_seconds

    def end_tick(self) -> None:
        """Note that the rows of a tick are committed. A tick that another runner overtook was in vain."""
        for source in self._sources.values():
            source.read_at = source.reading_at

    def read_time(self, name: str) -> datetime | None:
        """Return the time of the newest tick with rows of a source; None if there was none since the run began."""
        return self._sources[name].read_at if name in self._sources else None

    def read(self, name: str, read: Callable[[], Rows], now: datetime) -> Rows | None:
        """Return the rows of a source, or None if it cannot be read in this tick, and keeps its last rows.

        `now` is the time of the tick. During an outage, `read` runs in the background and its rows are dropped: they
        only show that the next tick can read the source.
        """
        source = self._sources.setdefault(name, _Source())
        if source.attempt is not None:
            if source.attempt.is_alive():
                return None
            attempt, source.attempt = source.attempt, None
            self._note(name, source, attempt, now)
        if not source.answers:
            if self._clock() >= source.next_try:
                source.attempt = Attempt(name, read)
                source.attempt.start()
            return None
        attempt = Attempt(name, read)
        attempt.start()
        seconds = max(source.patience, self._left, _LEAST_SECONDS)
        attempt.join(seconds)
        if attempt.is_alive():
            self._left -= seconds
            source.attempt, source.answers = attempt, False
            self.outages.begin(name, f"its source did not answer within {seconds:.0f} seconds", now)
            return None
        self._note(name, source, attempt, now)
        if attempt.error is None:
            source.pause, source.reading_at = 0.0, now
            self.outages.end(name)
        return attempt.rows

    def close(self) -> None:
        """Wait for reads in the background. One that goes on for more than five seconds ends with the process."""
        end = time.monotonic() + _CLOSE_SECONDS
        for source in self._sources.values():
            if source.attempt is not None:
                source.attempt.join(max(0.0, end - time.monotonic()))

    def _note(self, name: str, source: _Source[Rows], attempt: Attempt[Rows], now: datetime) -> None:
        source.answers = attempt.error is None
        if attempt.error is None:
            source.patience = 2 * attempt.seconds
            return
        source.pause = min(_LONGEST_PAUSE, max(_FIRST_PAUSE, 2 * source.pause))
        source.next_try = self._clock() + source.pause
        self.outages.begin(name, attempt.error.what, now)


def record_checks(work: RunContext, reads: SourceReads[Rows], now: datetime, *, only_outages: bool = False) -> None:
    """Record for each table that its sources were read at `now`, or when they were last read, and the outages.

    `only_outages`: leave tables whose sources were read as they are. Cost: two small files for each table.
    """
    folders = {each.name: work.lake.folder(open_table_of(each.name)) for each in continuous_tables(work.flow)}
    current = reads.outages.current
    known = {name: read_check(folder) for name, folder in folders.items() if name in current}
    times = {name: reads.read_time(name) for name in known}
    for name, check in find_checks(work.flow, current, times, known, now).items():
        if check.outages or not only_outages:
            record_check(folders[name], check.at, check.outages)
    reads.recorded = frozenset(current)


def find_checks(
    flow: Flow,
    outages: Mapping[str, SourceOutage],
    times: Mapping[str, datetime | None],
    known: Mapping[str, SourceCheck],
    now: datetime,
) -> dict[str, SourceCheck]:
    """Return what is to be recorded for each table with CONTINUOUS after a tick at `now`. Pure.

    `times` are the newest reads of the collects with an outage in this run, and `known` what is recorded for them: an
    outage that an earlier run recorded goes on. A table that is made of several collects was read when the first of
    them stopped to answer.
    """
    found: dict[str, SourceCheck] = {}
    for table in continuous_tables(flow):
        inputs = sorted(with_continuous_inputs(flow, [table.name]) & outages.keys())
        behind = [_continue_outage(outages[name], times[name], known[name]) for name in inputs]
        read = [each.at for each in behind if each.at is not None]
        at = min(read, default=now) if len(read) == len(behind) else None
        found[table.name] = SourceCheck(at, tuple(outage for each in behind for outage in each.outages))
    return found


def _continue_outage(outage: SourceOutage, read_at: datetime | None, known: SourceCheck) -> SourceCheck:
    since = min([outage.since, *(each.since for each in known.outages if each.table == outage.table)])
    at = max((each for each in (read_at, known.at) if each is not None), default=None)
    return SourceCheck(at, (replace(outage, since=since),))
