"""Simulates tables that close their books and store open windows, on the real planner and ledger, over toy rows.

Rows of `web.u` arrive in slices of six hours, each with its own time (hours since `EVE`). Two tables group them into
windows of that time. Only `expected` computes which rows the tables and their views must show: from slices and
closings, without knowledge of how they were made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from waterclock.batches.ledger_snapshot import FOLLOW, BatchStatus, LedgerSnapshot
from waterclock.batches.records import BatchResult, ClaimRequest, Input
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.ledger.ledger import Ledger
from waterclock.planner.closings import manual_closing_tick
from waterclock.planner.open_windows import VisibleWindows, requested_open_labels
from waterclock.planner.plan import Batch, BoundRead, Group, ReadScope
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.timelabel.window import Window

EVE = datetime(2020, 1, 1, tzinfo=UTC)
HOUR, SLOT = timedelta(hours=1), timedelta(hours=6)
TABLES = {"web.daily": (timedelta(days=1), timedelta(days=1)), "web.half": (timedelta(hours=12), SLOT)}
"""The tables that close their books: window length, and how far before a window they read slices."""
GRACE = {"web.daily": timedelta(0), "web.half": SLOT}
FLOW = """
CREATE CONNECTION shop TYPE sqlite OPTIONS (path 'shop.sqlite');
COLLECT web.u PARTITIONED (id BIGINT, at TIMESTAMP, came TIMESTAMP)
  FROM shop.u EVERY 6 HOURS BY DATA TIME came START '2020-01-01';
TRANSFORM web.daily PARTITIONED (id BIGINT) OPTIONS (open_windows 'kept') EVERY DAY
  CLOSE WHEN max(at) >= WINDOW_END() OR closed_by_hand() AS SELECT id FROM UNTIL(web.u, '1 day');
TRANSFORM web.half PARTITIONED (id BIGINT) OPTIONS (open_windows 'kept') EVERY 12 HOURS
  CLOSE WHEN max(at) >= WINDOW_END() + INTERVAL 6 HOURS PARTIAL AFTER 1 DAY
  AS SELECT id FROM UNTIL(web.u, '6 hours');
"""

Rows = tuple[tuple[Any, ...], ...]
Slices = Mapping[datetime, Rows]
Key = tuple[str, datetime]
Row = tuple[datetime, int, bool]


def flow_in(folder: Path) -> Flow:
    (folder / "flows").mkdir()
    (folder / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (folder / "flows" / "all.dpl").write_text(FLOW)
    return load_project(folder, capabilities=capabilities()).flow


def of_window(table: str, start: datetime, boundary: datetime, slices: Slices) -> list[int]:
    """Return the rows of a window from the slices before a boundary."""
    length, span = TABLES[table]
    rows = (row for label, rows in slices.items() if start - span <= label < boundary for row in rows)
    return sorted(id_ for at, id_ in rows if start <= at < start + length)


@dataclass(frozen=True, slots=True)
class Commit:
    """A batch recorded at an instant of the ledger's clock. `opened`: the windows in a state of open windows."""

    at: datetime
    key: Key
    rows: Rows
    opened: tuple[datetime, ...] = ()


@dataclass(slots=True)
class Life:
    """One simulation of the flow."""

    flow: Flow
    random: Random
    now: datetime = EVE
    clock: datetime = datetime(2024, 1, 1, tzinfo=UTC)
    source: dict[datetime, Rows] = field(default_factory=dict)
    log: list[Commit] = field(default_factory=list)
    skipped: set[Key] = field(default_factory=set)
    resting: frozenset[str] = frozenset()
    newest: int = 0
    url: str = "sqlite://"
    failing: float = 0.1
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

    def pass_time(self) -> None:
        """Add slices, with early and late rows among them; some tables rest."""
        for _ in range(self.random.choice((1, 1, 1, 1, 2, 5))):
            self.source[self.now] = self._rows(self.now)
            self.now += SLOT
        names = sorted(self.flow.tables)
        self.resting = frozenset(self.random.sample(names, self.random.choice((0, 0, 1, 2))))

    def _rows(self, label: datetime) -> Rows:
        rows = []
        for _ in range(self.random.choice((0, 1, 3))):
            self.newest += 1
            rows.append((label + self.random.choice((-40, -20, -9, -3, 0, 1, 4, 7, 15, 30)) * HOUR, self.newest))
        return tuple(rows)

    def restate(self) -> None:
        """Change a slice that is done, close a window by hand, or skip a failed batch."""
        done = sorted({commit.key[1] for commit in self.log if commit.key[0] == "web.u"})
        if done and self.random.random() < 0.5:
            label = self.random.choice(done)
            self.source[label] = self._rows(label)
            self.ledger.decisions.request_restate("web.u", [label], "recollect", who="test")
        if self.random.random() < 0.3:
            books = self.planner.books_of(self.snapshot(), self.now, "web.daily")
            first = books.first_open()
            if first is not None:
                try:
                    tick = manual_closing_tick(books, first)
                except WaterclockError:
                    return
                self.ledger.decisions.close_by_hand("web.daily", first.start, tick, who="test", why="enough")

    def look(self) -> None:
        """Close books as a runner does, but check the conditions on the toy rows."""
        while True:
            found = [(books, books.pairs()) for books in self.planner.books(self.snapshot(), self.now)]
            found = [(books, pairs) for books, pairs in found if pairs]
            if not found:
                return
            slices = self.slices(None)
            for books, pairs in found:
                name = books.table.name
                holds = {pair: self._holds(name, pair.window, pair.boundary, slices) for pair in pairs}
                told = [(window.start, closing) for window, closing in books.collect_closings(pairs, holds)]
                self.ledger.decisions.close_books(name, told, who="test")

    def _holds(self, name: str, window: Window, boundary: datetime, slices: Slices) -> bool:
        low = window.start - TABLES[name][1]
        times = [row[0] for label, rows in slices.items() if low <= label < boundary for row in rows]
        return bool(times) and max(times) >= window.end + GRACE[name]

    def backfill(self) -> None:
        """Make missing older states of open windows."""
        force: dict[str, frozenset[datetime]] = {}
        for name in map(self.beside, TABLES):
            missing = self.snapshot().of(name).covered.gaps(EVE, self.now)
            cadence = self.flow.tables[name].cadence
            force[name] = frozenset(window.start for low, high in missing for window in cadence.windows(low, high))
        self.work(force=force)

    def catch_up(self) -> None:
        """Make older states of open windows follow restatements."""
        for name, labels in self.planner.plan(self.snapshot(), self.now).behind.items():
            self.ledger.decisions.request_restate(name, sorted(labels), FOLLOW, who="test")
        self.work()
        self.clear()

    def newest_state(self, table: str) -> datetime:
        """Return the boundary of the newest state of open windows that was not skipped."""
        return max(commit.key[1] for commit in self.commits(None, self.beside(table))) + SLOT

    def work(self, most: int = 1000, force: Mapping[str, frozenset[datetime]] | None = None) -> None:
        """Run ready batches in any order until none remains or the limit is reached."""
        names = [name for name in self.flow.tables if name not in self.resting]
        while most:
            most -= 1
            self.look()
            snapshot = self.ledger.reads.snapshot(self.flow, asking=requested_open_labels(self.flow, force or {}))
            undone = {
                name: frozenset(label for label in labels if not snapshot.of(name).covered.covers_instant(label))
                for name, labels in (force or {}).items()
            }
            request = PlanRequest(only=names, group_cap=self.random.choice((1, 4)), force=undone)
            groups = self.planner.ready(snapshot, self.now, request)
            if not groups:
                return
            self._make(self.random.choice(groups))

    def _make(self, group: Group) -> None:
        inputs = self._inputs(group)
        request = ClaimRequest(
            table=group.table, labels=tuple(batch.label for batch in group.batches), code="code",
            flow=self.flow.fingerprint, runner="test", who="test", now=self.now, lease_seconds=1e6, target_version=-1,
            inputs=inputs,
        )  # fmt: skip
        claim = self.ledger.claims.take(request)
        if group.table in TABLES and self.random.random() < self.failing:
            self.ledger.claims.record_failed(claim, error="boom", is_transient=False, status=BatchStatus.FAILED)
            return
        made = {batch.label: self._rows_of(batch) for batch in group.batches}
        results = [
            BatchResult(
                label=batch.label, end=batch.window.end, version=claim.number, rows=len(made[batch.label]),
                bytes=1, digest=f"{len(made[batch.label])}:{crc32(repr(made[batch.label]).encode())}:0",
                slice_path=f"{claim.number}",
            )
            for batch in group.batches
        ]  # fmt: skip
        self.ledger.claims.record_done(claim, results)
        for batch in group.batches:
            opened = tuple(each.window.start for each in batch.opened)
            self.log.append(Commit(self.clock, (batch.table, batch.label), made[batch.label], opened))

    def _inputs(self, group: Group) -> dict[datetime, tuple[Input, ...]]:
        reads = [(batch.label, read) for batch in group.batches for read in batch.reads]
        pins = self.ledger.reads.pins([(read.read.table, read.low, read.high) for _, read in reads]) if reads else []
        found: dict[datetime, tuple[Input, ...]] = {}
        for (label, read), pin in zip(reads, pins, strict=True):
            kind = "state" if read.scope is ReadScope.STATE else "slices"
            told = Input(pin.table, str(read.read), kind, pin.low, pin.high, pin.location, pin.version, pin.content)
            found[label] = (*found.get(label, ()), told)
        return found

    def _rows_of(self, batch: Batch) -> Rows:
        """Make a batch from its bound reads only."""
        if batch.table == "web.u":
            return self.source[batch.label]
        if batch.opened:
            return tuple(
                (each.window.start, id_) for each in batch.opened for id_ in self._ids(each.window, each.reads)
            )
        return tuple((id_,) for id_ in self._ids(batch.window, batch.reads))

    def _ids(self, window: Window, reads: tuple[BoundRead, ...]) -> list[int]:
        [read] = reads
        rows = (row for label, rows in self.slices(None).items() if read.low <= label < read.high for row in rows)
        return sorted(id_ for at, id_ in rows if window.start <= at < window.end)

    def slices(self, at: datetime | None, table: str = "web.u") -> dict[datetime, Rows]:
        """Return the slices of a table as known at an instant."""
        return {commit.key[1]: commit.rows for commit in self.commits(at, table)}

    def commits(self, at: datetime | None, table: str) -> list[Commit]:
        return [it for it in self.log if it.key[0] == table and (at is None or it.at <= at)]

    def clear(self) -> None:
        """Resume all resting tables; retry failed batches or skip them."""
        self.resting = frozenset()
        while any(facts.troubles for facts in self.snapshot().tables.values()):
            for name, facts in self.snapshot().tables.items():
                for label in facts.troubles:
                    if self.random.random() < 0.2 and not facts.covered.covers_instant(label):
                        window = self.flow.tables[name].cadence.window_of(label)
                        self.ledger.decisions.skip(name, [window], who="test", why="not worth it")
                        self.skipped.add((name, label))
                    else:
                        self.ledger.decisions.retry(name, [label], who="test")
            self.work()

    def closings(self, table: str) -> dict[datetime, datetime]:
        """Return the closing ticks of windows."""
        return self.ledger.reads.closed_ticks(table, EVE)

    def shown(self, table: str, shown: VisibleWindows, tick: datetime, at: datetime | None) -> list[Row]:
        """Return the rows that a view shows by the rule of `engine.query.view_rows`, from the commits at that time."""
        length, windows = TABLES[table][0], {window.start for window in shown.windows}
        rows: list[Row] = []
        for label, of_label in self.slices(at, table).items():
            if label + length <= tick and label not in windows:
                rows += [(label, id_, True) for (id_,) in of_label]
        if shown.boundary is not None:
            state = self.slices(at, self.beside(table)).get(shown.boundary - SLOT, ())
            rows += [(label, id_, label in shown.ended) for label, id_ in state if label in windows]
        return sorted(rows)

    def expected(self, table: str, tick: datetime, at: datetime | None) -> list[Row]:
        """Return the rows that a view must show as of a tick: those of each window that started before its boundary."""
        length, _ = TABLES[table]
        boundary, closings, slices = tick - (tick - EVE) % SLOT, self.closings(table), self.slices(at)
        rows: list[Row] = []
        start = EVE
        while start < boundary:
            closed = closings.get(start)
            is_skipped = (table, start) in self.skipped and (closed is None or closed < boundary)
            up_to = boundary if closed is None else min(closed, boundary)
            ids = [] if is_skipped else of_window(table, start, up_to, slices)
            rows += [(start, id_, closed is not None and closed <= boundary) for id_ in ids]
            start += length
        return sorted(rows)

    def expected_now(self, table: str, shown: VisibleWindows) -> list[Row]:
        """Return the rows that a view must show now: all done windows, and the others as of a boundary."""
        closings, done, slices = self.closings(table), self.slices(None, table), self.slices(None)
        rows = [(start, id_, True) for start in done for id_ in of_window(table, start, closings[start], slices)]
        start = EVE
        while shown.boundary is not None and start < shown.boundary:
            if start not in done and (table, start) not in self.skipped:
                is_ended = closings.get(start) == shown.boundary
                rows += [(start, id_, is_ended) for id_ in of_window(table, start, shown.boundary, slices)]
            start += TABLES[table][0]
        return sorted(rows)

    @staticmethod
    def beside(table: str) -> str:
        return table.replace(".", ".spd_")
