"""Random simulations of one table that closes its books: early, punctual and late rows, and where each must end up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from tests.model.flows import collect, flow, transform, until
from waterclock.batches.records import BatchResult, ClaimRequest, Input
from waterclock.errors import WaterclockError
from waterclock.flow.closings import Closes
from waterclock.ledger.ledger import Ledger
from waterclock.planner.closings import ClosingCandidate, ClosingFacts, manual_closing_tick
from waterclock.planner.plan import Group, Status
from waterclock.planner.planning import Planner
from waterclock.timelabel.duration import Duration, parse_duration

START = datetime(2024, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
LENGTH = 4 * HOUR


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A row of u: its own time, None if it has none, and the part that sent it."""

    id: int
    at: datetime | None
    part: str


Rows = tuple[Row, ...]


def _by_part(rows: Rows, _: datetime, e: datetime) -> bool:
    newest: dict[str, datetime] = {}
    for row in rows:
        if row.at is not None:
            newest[row.part] = max(newest.get(row.part, row.at), row.at)
    return bool(newest) and min(newest.values()) >= e


CONDITIONS: Mapping[str, Callable[[Rows, datetime, datetime], bool]] = {
    "watermark(at, part) >= WINDOW_END()": _by_part,
    "max(at) >= WINDOW_END() + INTERVAL 2 HOURS": lambda rows, _, e: any(r.at and r.at >= e + 2 * HOUR for r in rows),
    "count_if(at >= WINDOW_START() AND at < WINDOW_END()) >= 6": lambda rows, s, e: (
        sum(1 for row in rows if row.at and s <= row.at < e) >= 6
    ),
    "count(*) > 20": lambda rows, _, __: len(rows) > 20,
    "TRUE": lambda *_: True,
    "closed_by_hand()": lambda *_: False,
}


@dataclass(slots=True)
class Life:
    """One simulation. `slices`: rows of u by label; `made`: rows of the windows; `ticks`: where windows were closed."""

    random: Random
    ledger: Ledger
    planner: Planner
    condition: str
    reach: timedelta
    slices: dict[datetime, Rows] = field(default_factory=dict)
    made: dict[datetime, Rows] = field(default_factory=dict)
    ticks: dict[datetime, datetime] = field(default_factory=dict)
    skipped: set[datetime] = field(default_factory=set)
    is_interfered: bool = False
    now: datetime = START
    rows: int = 0
    held: list[tuple[ClosingFacts, dict[ClosingCandidate, bool]]] = field(default_factory=list)
    silent: str = ""

    @classmethod
    def of(cls, random: Random) -> Life:
        condition = random.choice(list(CONDITIONS))
        hours = random.choice((0, 1, 3, 6))
        is_by_hand = condition == "closed_by_hand()" or random.random() < 0.3
        closes = Closes(condition, condition, is_by_hand=is_by_hand, is_asked=condition != "closed_by_hand()")
        after = parse_duration(random.choice(("6 HOURS", "90 MINUTES"))) if random.random() < 0.4 else None
        u = collect("u", "HOUR", start=START)
        span = f"{hours} HOURS" if hours else "0 MINUTES"
        t = transform("t", [until("u", span)], "4 HOURS", closes=closes, partial_after=after)
        made = flow(u, t)
        ledger = Ledger.open("sqlite://", clock=lambda: datetime(2030, 1, 1, tzinfo=UTC))
        ledger.declared.apply(made, who="test", now=START, runner="test")
        life = cls(random, ledger, Planner(made), condition, hours * HOUR)
        life.silent = random.choice(("", "", "c"))
        return life

    def live(self, hours: int = 60) -> None:
        """Add rows hour by hour, with outages, restatements, manual decisions and concurrent runners; then finish."""
        arrived = 0
        while arrived < hours:
            some = min(self.random.choice((1, 1, 1, 2, 7, 20)), hours - arrived)
            for _ in range(some):
                self.arrive()
                arrived += 1
            self.step()
        self.rest()

    def step(self) -> None:
        """Perform a few random actions of runners and people."""
        for _ in range(self.random.choice((1, 2, 4))):
            self.random.choice((self.look, self.look, self.write, self.make, self.make, self.restate, self.decide))()

    def rest(self) -> None:
        """Write all pending results, then check and make batches until no work remains."""
        while self.held:
            self.write()
        while True:
            self.look()
            if self.held:
                self.write()
            elif not self.make():
                return

    def move(self) -> None:
        """Continue with a new ledger that is loaded from the exports of this one."""
        lines = list(self.ledger.maintenance.export_lines())
        new = Ledger.open("sqlite://", clock=lambda: datetime(2030, 1, 1, tzinfo=UTC))
        new.maintenance.load([lines])
        self.ledger.close()
        self.ledger = new

    def arrive(self) -> None:
        """Commit the next slice of u."""
        label, self.now = self.now, self.now + HOUR
        self._commit_slice(label, tuple(self._row(label) for _ in range(self.random.choice((0, 1, 2, 4)))))

    def _row(self, label: datetime) -> Row:
        self.rows += 1
        off = self.random.choice((0, 0, 0, -1, -3, -9, 1, 5)) * HOUR
        part = self.random.choice("abc")
        while part == self.silent and label > START + 20 * HOUR:
            part = self.random.choice("abc")
        at = label + off + timedelta(minutes=self.random.randrange(60))
        return Row(self.rows, None if self.random.random() < 0.03 else at, part)

    def restate(self) -> None:
        """Change a slice of u, or request that a window is made again."""
        if self.random.random() < 0.5 or not self.slices:
            return
        if self.made and self.random.random() < 0.5:
            label = self.random.choice(sorted(self.made))
            self.ledger.decisions.request_restate("t", [label], "recompute", who="test")
            return
        label = self.random.choice(sorted(self.slices))
        kept = tuple(row for row in self.slices[label] if self.random.random() < 0.7)
        self.change(label, (*kept, *(self._row(label) for _ in range(self.random.choice((0, 1, 3))))))

    def change(self, label: datetime, rows: Rows) -> None:
        """Collect a slice of u again."""
        self.ledger.decisions.request_restate("u", [label], "recollect", who="test")
        self._commit_slice(label, rows)

    def decide(self) -> None:
        """Close a window by hand, skip one, undo a skip, or continue with a new ledger."""
        if self.random.random() < 0.3:
            self.move()
        books = self.books()
        window = books.first_open()
        if window is None or self.random.random() < 0.6:
            return
        if self.random.random() < 0.2:
            if self.skipped and self.random.random() < 0.5:
                label = self.skipped.pop()
                self.ledger.decisions.retry("t", [label], who="test")
            else:
                self.ledger.decisions.skip("t", [window], who="test", why="not worth it")
                self.skipped.add(window.start)
            self.is_interfered = True
            return
        try:
            tick = manual_closing_tick(books, window)
        except WaterclockError as error:
            if error.code != "E266":
                raise
            return
        self.ledger.decisions.close_by_hand("t", window.start, tick, who="test", why="enough")
        self.is_interfered = True

    def books(self) -> ClosingFacts:
        return self.planner.books_of(self.ledger.reads.snapshot(self.planner.flow), self.now, "t")

    def look(self) -> None:
        """Check the visible boundaries; the result is written later."""
        books = self.books()
        if pairs := books.pairs():
            asked = pairs if self.condition != "closed_by_hand()" else ()
            self.held.append((books, {pair: self.holds(pair.window.start, pair.boundary) for pair in asked}))

    def write(self) -> None:
        """Write the result of one check."""
        if self.held:
            books, holds = self.held.pop(self.random.randrange(len(self.held)))
            told = [(window.start, closing) for window, closing in books.collect_closings(books.pairs(), holds)]
            self.ledger.decisions.close_books("t", told, who="test")

    def holds(self, s: datetime, boundary: datetime) -> bool:
        """Return whether the condition is true for the rows that arrived before a boundary."""
        seen = [row for label, rows in self.slices.items() if s - self.reach <= label < boundary for row in rows]
        return CONDITIONS[self.condition](tuple(seen), s, s + LENGTH)

    def make(self) -> bool:
        """Make the ready batches; return whether there were any."""
        groups = self.planner.ready(self.ledger.reads.snapshot(self.planner.flow), self.now)
        for group in (group for group in groups if group.table == "t"):
            self._make(group)
        return any(group.table == "t" for group in groups)

    def _make(self, group: Group) -> None:
        inputs: dict[datetime, tuple[Input, ...]] = {}
        for batch in group.batches:
            assert batch.status is Status.READY
            [read] = batch.reads
            [pin] = self.ledger.reads.pins([("u", read.low, read.high)])
            inputs[batch.label] = (
                Input("u", str(read.read), "slices", pin.low, pin.high, pin.location, pin.version, pin.content),
            )
            seen = [row for label, rows in self.slices.items() if read.low <= label < read.high for row in rows]
            own = (row for row in seen if row.at and batch.label <= row.at < batch.window.end)
            self.made[batch.label] = tuple(sorted(own))
            kept = self.ticks.setdefault(batch.label, read.high)
            assert kept == read.high, "a revision keeps the tick"
        self._commit("t", {batch.label: self.made[batch.label] for batch in group.batches}, inputs, LENGTH)

    def _commit_slice(self, label: datetime, rows: Rows) -> None:
        self.slices[label] = rows
        self._commit("u", {label: rows}, {}, HOUR)

    def _commit(
        self, name: str, made: Mapping[datetime, Rows], inputs: dict[datetime, tuple[Input, ...]], length: timedelta
    ) -> None:
        request = ClaimRequest(
            table=name, labels=tuple(made), code="code", flow=self.planner.flow.fingerprint, runner="test", who="test",
            now=self.now, lease_seconds=1e6, target_version=-1, inputs=inputs,
        )  # fmt: skip
        claim = self.ledger.claims.take(request)
        results = [
            BatchResult(
                label=label, end=label + length, version=claim.number, rows=len(rows), bytes=len(rows),
                digest=json.dumps([row.id for row in rows]), slice_path=f"{name}{label}",
            )
            for label, rows in made.items()
        ]  # fmt: skip
        self.ledger.claims.record_done(claim, results)

    def closing_ticks(self) -> dict[datetime, datetime]:
        """Return the ticks at which books are closed, by label, from the ledger."""
        return {label: it.tick for label, it in self.ledger.reads.closings("t").items() if it.tick is not None}

    @property
    def patience(self) -> Duration | None:
        """How long after its end a window is closed at the latest."""
        return self.planner.flow.tables["t"].partial_after

    def first_tick(self, s: datetime, before: datetime, after: Duration | None) -> datetime | None:
        """Return the tick of a window by the definition, from the current rows of all slices; None if it is open."""
        e = s + LENGTH
        least = max(e, before)
        boundary = least
        while boundary <= self.now:
            if self.condition != "closed_by_hand()" and self.holds(s, boundary):
                return boundary
            if after is not None and boundary >= after.add_to(e, "UTC"):
                return boundary
            boundary += HOUR
        return None

    def reasons(self) -> Counter[str]:
        """Count the closed windows by reason."""
        found = self.ledger.reads.closings("t").values()
        return Counter(it.reason or "open" for it in found)
