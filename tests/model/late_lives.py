"""Simulates tables that close their books, with the tables of their late rows: real planner and ledger over toy rows.

The work of runners overlaps: a batch is claimed, made and committed at different times, and some claims are lost.
People skip, retry, recompute and withdraw. `Life.shares` computes from the ticks alone where each row must end up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from waterclock.batches.ledger_snapshot import BEGINNING, RECOMPUTE, BatchStatus, LedgerSnapshot
from waterclock.batches.records import BatchResult, Claim, ClaimRequest, Input
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.graph import late_tables
from waterclock.flow.late_rows import CAME_EARLY, CAME_LATE, NO_TIME, LateRows
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.ledger_errors import ClaimRefused
from waterclock.planner.closings import ClosingFacts, manual_closing_tick
from waterclock.planner.late_rows import (
    find_closed_windows,
    find_remakeable_windows,
    find_reopenable_windows,
    first_window_after,
)
from waterclock.planner.plan import Batch, Group, ReadScope, Status
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.timelabel.window import Window

EVE = datetime(2020, 1, 1, tzinfo=UTC)
HOUR, SLOT = timedelta(hours=1), timedelta(hours=6)
SOURCES = ("web.u", "web.v")
LENGTHS = {"web.daily": 24 * HOUR, "web.half": 12 * HOUR, "web.both": 24 * HOUR, "web.hand": 12 * HOUR}
REACH = {
    ("web.daily", "web.u"): 24 * HOUR,
    ("web.half", "web.u"): 6 * HOUR,
    ("web.both", "web.u"): 24 * HOUR,
    ("web.both", "web.v"): 6 * HOUR,
    ("web.hand", "web.u"): 24 * HOUR,
}
"""The window length of each table, and how far before a window it reads slices by UNTIL."""
LATENESS = {"web.daily": 36 * HOUR, "web.both": 60 * HOUR}
FLOW = """
CREATE CONNECTION shop TYPE sqlite OPTIONS (path 'shop.sqlite');
COLLECT web.u PARTITIONED (id BIGINT, at TIMESTAMP, came TIMESTAMP)
  FROM shop.u EVERY 6 HOURS BY DATA TIME came START '2020-01-01' RETAIN 4 DAYS;
COLLECT web.v PARTITIONED (id BIGINT, at TIMESTAMP, came TIMESTAMP)
  FROM shop.v EVERY 6 HOURS BY DATA TIME came START '2020-01-01';
TRANSFORM web.daily PARTITIONED (id BIGINT) EVERY DAY
  CLOSE WHEN watermark(at) >= WINDOW_END() OR closed_by_hand() MAX LATENESS 36 HOURS
  AS SELECT id FROM UNTIL(web.u, '1 day');
TRANSFORM web.half PARTITIONED (id BIGINT) EVERY 12 HOURS
  CLOSE WHEN watermark(at) >= WINDOW_END() + INTERVAL 6 HOURS OR closed_by_hand() PARTIAL AFTER 1 DAY
  AS SELECT id FROM UNTIL(web.u, '6 hours');
TRANSFORM web.both PARTITIONED (id BIGINT) EVERY DAY
  CLOSE WHEN watermark(web.u.at) >= WINDOW_END() AND watermark(web.v.at) >= WINDOW_END() OR closed_by_hand()
  MAX LATENESS 60 HOURS
  AS SELECT id FROM UNTIL(web.u, '1 day') UNION ALL SELECT id FROM UNTIL(web.v, '6 hours');
TRANSFORM web.hand PARTITIONED (id BIGINT) EVERY 12 HOURS
  CLOSE WHEN closed_by_hand() OR watermark(at) > WINDOW_END() + INTERVAL 900 DAYS PARTIAL AFTER 30 HOURS
  AS SELECT id FROM UNTIL(web.u, '1 day');
"""

Row = tuple[datetime | None, int]
Late = tuple[int, str]
Key = tuple[str, datetime]


def flow_in(folder: Path) -> Flow:
    (folder / "flows").mkdir()
    (folder / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (folder / "flows" / "all.dpl").write_text(FLOW)
    return load_project(folder, capabilities=capabilities()).flow


@dataclass(slots=True)
class Flight:
    """A claim between its start and its commit; `rows`: the pinned inputs of each label, `made`: its result."""

    claim: Claim
    group: Group
    rows: dict[datetime, list[tuple[datetime, Row]]]
    source: dict[datetime, tuple[Row, ...]]
    made: dict[datetime, tuple[Any, ...]] | None = None


@dataclass(slots=True)
class Life:
    """One simulation. `source`: rows of the sources; `lake`: committed rows; `gone`: skipped windows."""

    flow: Flow
    random: Random
    url: str = "sqlite://"
    now: datetime = EVE
    clock: datetime = datetime(2024, 1, 1, tzinfo=UTC)
    source: dict[Key, tuple[Row, ...]] = field(default_factory=dict)
    lake: dict[Key, tuple[Any, ...]] = field(default_factory=dict)
    flights: list[Flight] = field(default_factory=list)
    gone: set[Key] = field(default_factory=set)
    newest: int = 0
    is_calm: bool = False
    commits: int = 0
    dropped: datetime = EVE
    planner: Planner = field(init=False)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.planner = Planner(self.flow)
        self.ledger = Ledger.open(self.url, clock=self._clock)
        self.ledger.declared.apply(self.flow, who="test", now=self.now, runner="test")

    def _clock(self) -> datetime:
        self.clock += timedelta(seconds=1)
        return self.clock

    def snapshot(self) -> LedgerSnapshot:
        return self.ledger.reads.snapshot(self.flow)

    # arriving rows and decisions of people

    def arrive(self) -> None:
        """Add a slice to each source."""
        for name in SOURCES:
            self.source[name, self.now] = self._rows(self.now)
        self.now += SLOT

    def _rows(self, label: datetime) -> tuple[Row, ...]:
        rows: list[Row] = []
        for _ in range(self.random.choice((0, 1, 3))):
            self.newest += 1
            hours = self.random.choice((-70, -40, -30, -20, -9, -3, 0, 1, 4, 7, 15, 30, None))
            rows.append((None if hours is None else label + hours * HOUR, self.newest))
        return tuple(rows)

    def decide(self) -> None:
        """Perform a random action of a user."""
        deeds = (self.recollect, self.recompute, self.close, self.skip, self.retry, self.withdraw, self.drop)
        self.random.choices(deeds, (2, 2, 1, 1, 1, 1, 1))[0]()

    def recollect(self) -> None:
        if self.dropped > EVE:  # a table whose inputs were dropped as well stays as it is
            return
        done = [key for key in self.lake if key[0] in SOURCES]
        for name, label in self.random.sample(done, min(len(done), 1)):
            kept = tuple(row for row in self.source[name, label] if self.random.random() < 0.5)
            self.source[name, label] = (*kept, *self._rows(label))
            self.ledger.decisions.request_restate(name, [label], "recollect", who="test")

    def drop(self) -> None:
        """Drop the windows of a source that RETAIN no longer keeps, as `maintain` does."""
        needed = self.planner.oldest_needed(self.snapshot(), self.now)["web.u"]
        before = min(self.now - timedelta(days=4), needed)
        if before > max(EVE, self.dropped) and not self.flights:
            self.dropped = before
            self.ledger.maintenance.drop_windows("web.u", before, 1, who="test")

    def _again(self, of: Table, windows: Iterable[Window]) -> tuple[Window, ...]:
        return find_remakeable_windows(of, self.flow, {"web.u": (EVE, self.dropped)}, windows)

    def recompute(self) -> None:
        done = sorted(key for key in self.lake if key[0] not in SOURCES)
        if done:
            name, label = self.random.choice(done)
            self.ledger.decisions.request_restate(name, [label], RECOMPUTE, who="test")

    def withdraw(self) -> None:
        for name in self.flow.tables:
            for label in self.snapshot().of(name).requested:
                try:
                    self.ledger.decisions.withdraw(name, [label], who="test")
                except WaterclockError as error:
                    if error.code != "E413":
                        raise

    def close(self) -> None:
        books = self.planner.books_of(self.snapshot(), self.now, self.random.choice(sorted(LENGTHS)))
        first = books.first_open()
        if first is None:
            return
        try:
            tick = manual_closing_tick(books, first)
        except WaterclockError as error:
            if error.code != "E266":
                raise
            return
        name = books.table.name
        late = late_tables(self.flow, name)
        self.ledger.decisions.close_by_hand(name, first.start, tick, late_tables=late, who="test", why="enough")

    def skip(self) -> None:
        """Skip a window that is not done: an open one, or a closed one that was not made yet."""
        name = self.random.choice(sorted(LENGTHS))
        missing = self.planner.books_of(self.snapshot(), self.now, name).windows()
        window = next(missing, None)
        if window is not None:
            try:
                self.ledger.decisions.skip(name, [window], who="test", why="not worth it")
            except WaterclockError as error:
                if error.code != "E413":
                    raise
                return
            self.gone.add((name, window.start))

    def retry(self) -> None:
        for name, label in self.random.sample(sorted(self.gone), min(len(self.gone), 1)):
            self.try_again(name, label)

    def try_again(self, name: str, label: datetime) -> None:
        self.ledger.decisions.retry(name, [label], late_tables=late_tables(self.flow, name), who="test")
        self.gone.discard((name, label))

    # work of runners

    def live(self, steps: int = 25) -> None:
        for _ in range(steps):
            for _ in range(self.random.choice((0, 1, 1, 2, 6))):
                self.arrive()
            for _ in range(self.random.randrange(12)):
                self.act()
        self.rest()

    def act(self) -> None:
        """Perform one random action of a runner or a user."""
        odds = self.random.random()
        if not self.is_calm and odds < 0.2:
            self.decide()
        elif odds < 0.35:
            self.look()
        elif odds < 0.6:
            self.take_off()
        else:
            self.go_on()

    def rest(self) -> None:
        """Check books and make batches until no work remains."""
        while True:
            while self.flights:
                self.go_on()
            self.troubled()
            self.look()
            if not self.take_off():
                return

    def troubled(self) -> None:
        for name, facts in self.snapshot().tables.items():
            if facts.troubles:
                self.ledger.decisions.retry(name, list(facts.troubles), who="test")

    def look(self) -> None:
        """Close books as a runner does, but check the conditions on the toy rows."""
        for books in self.planner.books(self.snapshot(), self.now):
            self._take_late_rows(books)
        while True:
            found = [(books, books.pairs()) for books in self.planner.books(self.snapshot(), self.now)]
            found = [(books, pairs) for books, pairs in found if pairs]
            if not found:
                return
            for books, pairs in found:
                name = books.table.name
                holds = {pair: self._holds(name, pair.window, pair.boundary) for pair in pairs}
                told = [(window.start, closing) for window, closing in books.collect_closings(pairs, holds)]
                late = late_tables(self.flow, name)
                self.ledger.decisions.close_books(name, told, late_tables=late, who="test")

    def _take_late_rows(self, books: ClosingFacts) -> None:
        """Simulate `engine.batch.closing` for a requested recompute."""
        name = books.table.name
        labels = [it for it, verb in books.past.requested.items() if verb == RECOMPUTE and it in books.past.closings]
        windows = map(books.table.cadence.window_of, labels)
        labels = [window.start for window in self._again(books.table, windows)]
        ticks: dict[datetime, datetime] = {}
        for late in late_tables(self.flow, name):
            [read] = self.flow.tables[late].reads
            times = {id_: at for (table, _), rows in self.lake.items() if table == read.table for at, id_ in rows}
            for (table, slice_), rows in self.lake.items():
                for id_, reason in rows if table == late else ():
                    at = times.get(id_)
                    for label in labels:
                        if reason == CAME_LATE and at is not None and label <= at < label + LENGTHS[name]:
                            ticks[label] = max(slice_ + SLOT, ticks.get(label, slice_ + SLOT))
        if ticks:
            late_ones = late_tables(self.flow, name)
            self.ledger.decisions.reopen(name, ticks, late_tables=late_ones, who="test", why="recompute requested")

    def _holds(self, name: str, window: Window, boundary: datetime) -> bool:
        newest = {}
        for (table, reads), reach in REACH.items():
            if table == name:
                times = [
                    at
                    for (u, label), rows in self.lake.items()
                    if u == reads and window.start - reach <= label < boundary
                    for at, _ in rows
                    if at is not None
                ]
                newest[reads] = max(times, default=BEGINNING)
        grace = {"web.half": SLOT, "web.hand": timedelta(days=900)}.get(name, timedelta())
        return min(newest.values()) >= window.end + grace

    def take_off(self) -> bool:
        """Claim a ready group with its current input rows; return whether there was one."""
        groups = self.planner.ready(self.snapshot(), self.now, PlanRequest(group_cap=self.random.choice((1, 4))))
        if not groups:
            return False
        group = self.random.choice(groups)
        rows = {batch.label: self._rows_read(batch) for batch in group.batches}
        request = ClaimRequest(
            table=group.table, labels=tuple(batch.label for batch in group.batches), code="code",
            flow=self.flow.fingerprint, runner="test", who="test", now=self.now, lease_seconds=1e6, target_version=-1,
            inputs=self._inputs(group),
            closed={it.label: it.closing.tick for it in group.batches if it.closing and it.closing.tick},
        )  # fmt: skip
        if not self.is_calm and self.random.random() < 0.1:  # another actor intervenes between plan and claim
            self.random.choice((self.look, self.decide))()
        try:
            claim = self.ledger.claims.take(request)
        except ClaimRefused:
            return True
        source = (
            {batch.label: self.source[group.table, batch.label] for batch in group.batches}
            if group.table in SOURCES
            else {}
        )
        self.flights.append(Flight(claim, group, rows, source))
        return True

    def _rows_read(self, batch: Batch) -> list[tuple[datetime, Row]]:
        found: list[tuple[datetime, Row]] = []
        for read in batch.reads:
            for (name, label), rows in self.lake.items():
                if name == read.read.table and read.low <= label < read.high:
                    found += [(label, row) for row in rows]
        return found

    def _inputs(self, group: Group) -> dict[datetime, tuple[Input, ...]]:
        reads = [(batch.label, read) for batch in group.batches for read in batch.reads]
        pins = self.ledger.reads.pins([(read.read.table, read.low, read.high) for _, read in reads]) if reads else []
        found: dict[datetime, tuple[Input, ...]] = {}
        for (label, read), pin in zip(reads, pins, strict=True):
            kind = "state" if read.scope is ReadScope.STATE else "slices"
            told = Input(pin.table, str(read.read), kind, pin.low, pin.high, pin.location, pin.version, pin.content)
            found[label] = (*found.get(label, ()), told)
        return found

    def go_on(self) -> None:
        """Advance a claim by one step: make its rows, commit them, or let it fail."""
        if not self.flights:
            return
        flight = self.random.choice(self.flights)
        if flight.made is None:
            flight.made = self._made(flight)
            return
        self.flights.remove(flight)
        if not self.is_calm and self.random.random() < 0.1:
            if self.random.random() < 0.5:
                self.ledger.claims.close_lost(flight.claim, "its lease ran out")
            else:
                self.ledger.claims.record_failed(
                    flight.claim, error="boom", is_transient=False, status=BatchStatus.FAILED
                )
            return
        self.commits += 1
        results = [
            BatchResult(
                label=batch.label, end=batch.window.end, version=flight.claim.number,
                rows=len(flight.made[batch.label]), bytes=1,
                digest=f"{len(flight.made[batch.label])}:{crc32(repr(flight.made[batch.label]).encode())}:0",
                slice_path=f"{flight.claim.number}",
            )
            for batch in flight.group.batches
        ]  # fmt: skip
        self.ledger.claims.record_done(flight.claim, results)
        for label, rows in flight.made.items():
            self.lake[flight.group.table, label] = rows

    def _made(self, flight: Flight) -> dict[datetime, tuple[Any, ...]]:
        table = self.flow.tables[flight.group.table]
        if flight.source:
            return dict(flight.source)
        if table.late_rows is not None:
            return self._too_late(table.late_rows, flight)
        length = LENGTHS[table.name]
        return {
            label: tuple(sorted(id_ for _, (at, id_) in rows if at is not None and label <= at < label + length))
            for label, rows in flight.rows.items()
        }

    def _too_late(self, late: LateRows, flight: Flight) -> dict[datetime, tuple[Any, ...]]:
        """Simulate `engine.batch.late_rows`: reopen windows, then return the rows that no window takes."""
        of, labels = self.flow.tables[late.of], list(flight.rows)
        since = self.ledger.reads.read_closed_since(of.name, min(labels), of.cadence.floor(max(labels)))
        ticks: dict[datetime, datetime] = {}
        for batch in flight.group.batches:
            for window in self._again(of, find_reopenable_windows(of, late, since, batch.label)):
                times = [at for _, (at, _) in flight.rows[batch.label]]
                if any(at is not None and window.start <= at < window.end for at in times):
                    ticks[window.start] = max(batch.window.end, ticks.get(window.start, batch.window.end))
        if ticks:
            others = late_tables(self.flow, of.name)
            self.ledger.decisions.reopen(of.name, ticks, late_tables=others, keep=labels, who="test", why="late rows")
        since = self.ledger.reads.read_closed_since(of.name, min(labels), of.cadence.floor(max(labels)))
        made: dict[datetime, tuple[Any, ...]] = {}
        for batch in flight.group.batches:
            begins = batch.begins or BEGINNING
            closed, early = (
                find_closed_windows(of, late, since, batch.label, begins),
                first_window_after(of, late, batch.label, begins),
            )
            told: list[Late] = []
            for _, (at, id_) in flight.rows[batch.label]:
                if at is None:
                    told.append((id_, NO_TIME))
                elif closed.covers_instant(at):
                    told.append((id_, CAME_LATE))
                elif at >= early:
                    told.append((id_, CAME_EARLY))
            made[batch.label] = tuple(sorted(told))
        return made

    # where each row must be

    def begins(self, name: str) -> datetime:
        return self.planner.starts(self.snapshot(), self.now)[name]

    def ticks(self, name: str) -> dict[datetime, datetime]:
        return {label: it.tick for label, it in self.ledger.reads.closings(name).items() if it.tick is not None}

    def check(self) -> Counter[str]:
        """Verify each table against the expected rows by the ticks, and each row against its expected fate."""
        counts: Counter[str] = Counter()
        plan = self.planner.plan(self.snapshot(), self.now)
        # skipped, and the skip was undone after RETAIN had dropped the inputs: reported as expired, never made
        expired = {(batch.table, batch.label) for batch in plan.batches if batch.status is Status.EXPIRED}
        for name, length in LENGTHS.items():
            ticks, begins = self.ticks(name), self.begins(name)
            wanted: dict[datetime, list[int]] = {}
            late: dict[tuple[str, datetime], list[Late]] = {}
            free: set[int] = set()
            for (table, read), reach in REACH.items():
                if table != name:
                    continue
                short = f"{name}_late" if f"{name}_late" in self.flow.tables else f"{name}_late_{read.split('.')[1]}"
                for (u, slice_), rows in self.lake.items():
                    for at, id_ in rows if u == read else ():
                        fate = self._fate(name, length, reach, slice_, at, begins, ticks)
                        counts[fate] += 1
                        if fate == "in" and at is not None:
                            wanted.setdefault(EVE + length * ((at - EVE) // length), []).append(id_)
                        elif fate in {CAME_EARLY, CAME_LATE, NO_TIME}:
                            late.setdefault((short, slice_), []).append((id_, fate))
                            within = LATENESS.get(name)
                            window = EVE + length * ((at - EVE) // length) if at is not None else EVE
                            opens = fate == CAME_LATE and within is not None and slice_ < window + length + within
                            # a window whose inputs RETAIN has dropped is not made again, so no row reopens it
                            can = self._again(self.flow.tables[name], [Window(window, window + length)])
                            assert not opens or not can, (name, slice_, id_, "late within MAX LATENESS")
                        elif fate == "gone":
                            free.add(id_)
            found = {label: rows for (table, label), rows in self.lake.items() if table == name}
            for label in {*found, *wanted}:
                if (name, label) in expired and label not in found:
                    assert not self._again(self.flow.tables[name], [Window(label, label + length)]), (name, label)
                    continue
                assert list(found.get(label, ())) == sorted(wanted.get(label, [])), (name, label, ticks.get(label))
            for key in {*late, *(key for key in self.lake if key[0].startswith(f"{name}_late"))}:
                told = [it for it in self.lake.get(key, ()) if it[0] not in free]
                assert told == sorted(late.get(key, [])), (key, told, sorted(late.get(key, [])))
        return counts

    def _fate(
        self, name: str, length: timedelta, reach: timedelta, slice_: datetime, at: datetime | None,
        begins: datetime, ticks: dict[datetime, datetime],
    ) -> str:  # fmt: skip
        if at is None:
            return NO_TIME
        window = EVE + length * ((at - EVE) // length)
        if window < begins:
            return "before START"
        if (name, window) in self.gone:
            return "gone"
        if slice_ < window - reach:
            return CAME_EARLY
        tick = ticks.get(window)
        return "open" if tick is None else "in" if slice_ < tick else CAME_LATE
