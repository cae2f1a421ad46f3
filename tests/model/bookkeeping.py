"""Closes books in a random simulation with overlapping checks and manual decisions, and verifies the ticks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from random import Random
from zlib import crc32

from tests.model.oracle import Key, earlier, later, windows_of
from tests.model.toy import ToyLake
from waterclock.batches.ledger_snapshot import AT_LAST, BY_HAND, CONDITION, Closing
from waterclock.errors import WaterclockError
from waterclock.flow.closings import Closes
from waterclock.flow.declarations import Flow, Read, Table
from waterclock.flow.enums import Kind, ReadKind
from waterclock.ledger.ledger import Ledger
from waterclock.planner.closings import ClosingCandidate, ClosingFacts, manual_closing_tick
from waterclock.planner.planning import Planner
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.window import Window

Found = list[tuple[Window, Closing]]


def closing(random: Random, tables: Mapping[str, Table], table: Table, span: Duration) -> Table | None:
    """Return a variant of a table that closes books, or None if its reads, UNTIL of one cadence, do not allow it."""
    until = [read for read in table.reads if read.kind is ReadKind.UNTIL]
    cadences = {(tables[read.table].cadence.period, tables[read.table].cadence.zone) for read in until}
    if table.kind is not Kind.TRANSFORM or not table.is_partitioned or table.choices or len(cadences) != 1:
        return None
    odds = random.choice(("1 in 1", "1 in 2", "1 in 5", "1 in 5", "never"))
    is_by_hand, is_asked = random.choice(((False, True), (True, True), (True, False)))
    after = span if random.random() < 0.4 else None
    closes = Closes(odds, odds, is_by_hand=is_by_hand, is_asked=is_asked)
    cadence = replace(table.cadence, delay=timedelta(0))
    return replace(table, closes=closes, partial_after=after, cadence=cadence)


@dataclass(slots=True)
class Bookkeeper:
    """Tracks the books of all windows in a simulation.

    `held`: results of checks that are not written yet. `seen`: the boundaries at which a condition was checked and was
    false. `ticks`: where books are closed. `closed`: counts by reason.
    """

    random: Random
    flow: Flow
    lake: ToyLake
    ledger: Ledger
    planner: Planner
    held: list[tuple[ClosingFacts, Found, dict[ClosingCandidate, bool]]] = field(default_factory=list)
    seen: defaultdict[Key, set[datetime]] = field(default_factory=lambda: defaultdict(set))
    ticks: dict[Key, datetime] = field(default_factory=dict)
    closed: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    refused: int = 0
    is_any: bool = False

    def __post_init__(self) -> None:
        self.is_any = any(table.closes for table in self.flow.tables.values())

    def look(self, now: datetime, *, is_late: bool = False) -> None:
        """Check all boundaries that are visible; with `is_late`, some results are written later."""
        while self.is_any:
            found = self.planner.books(self.ledger.reads.snapshot(self.flow), now)
            pairs = [(books, books.pairs()) for books in found]
            pairs = [(books, some) for books, some in pairs if some]
            if not pairs:
                return
            for books, some in pairs:
                self.held.append(self._looked(books, some))
                if is_late and self.random.random() < 0.5:
                    return
                self.write()

    def write(self) -> None:
        """Write the result of one check, and verify which ticks the ledger accepts."""
        if not self.held:
            return
        books, told, holds = self.held.pop(self.random.randrange(len(self.held)))
        name = books.table.name
        before = dict(self.ledger_ticks(name))
        is_all = self.ledger.decisions.close_books(name, [(w.start, it) for w, it in told], who="test")
        after = self.ledger_ticks(name)
        assert all(after[label] == tick for label, tick in before.items()), "a recorded tick has changed"
        for window, closing in told:
            key = (name, window.start)
            if after.get(window.start) is not None and window.start not in before:
                assert after[window.start] == closing.tick
                self._check(books.table, window, closing, holds)
            elif window.start in before:
                is_same = before[window.start] == closing.tick
                assert is_same or not is_all
                if not is_same:
                    return
            if closing.tick is None:
                self.seen[key] |= {pair.boundary for pair, held in holds.items() if pair.window == window and not held}

    def ledger_ticks(self, name: str) -> dict[datetime, datetime]:
        """Return the ticks at which books are closed, by label, from the ledger."""
        return {label: it.tick for label, it in self.ledger.reads.closings(name).items() if it.tick is not None}

    def by_hand(self, now: datetime) -> None:
        """Try to close a window by hand: it is refused, or closed if all its inputs are settled."""
        names = [name for name, table in self.flow.tables.items() if table.closes]
        if not names:
            return
        name = self.random.choice(names)
        books = self.planner.books_of(self.ledger.reads.snapshot(self.flow), now, name)
        windows = [window for window in windows_of(books.table.cadence) if window.end <= now]
        first = books.first_open()
        window = first if first is not None and self.random.random() < 0.8 else self.random.choice(windows[-20:])
        try:
            tick = manual_closing_tick(books, window)
        except WaterclockError as error:
            if error.code != "E266":
                raise
            self.refused += 1
            return
        assert books.table.closes is not None
        assert books.table.closes.is_by_hand
        self.ledger.decisions.close_by_hand(name, window.start, tick, who="test", why="enough")
        self._check(books.table, window, Closing(tick, reason=BY_HAND), {})

    def any_open(self, now: datetime) -> tuple[str, Window] | None:
        """Return a window with open books that is neither made nor skipped."""
        found = [
            (books.table.name, window)
            for books in self.planner.books(self.ledger.reads.snapshot(self.flow), now)
            for window in islice(books.windows(), 20)
            if not books.is_closed(window) and window.start not in books.past.troubles
        ]
        return self.random.choice(found) if found else None

    def _looked(
        self, books: ClosingFacts, pairs: Sequence[ClosingCandidate]
    ) -> tuple[ClosingFacts, Found, dict[ClosingCandidate, bool]]:
        closes = books.table.closes
        assert closes is not None
        assert len(pairs) == len(set(pairs)) <= 48
        holds = (
            {pair: self._holds(books.table, pair.window, pair.boundary) for pair in pairs} if closes.is_asked else {}
        )
        return books, books.collect_closings(pairs, holds), holds

    def _holds(self, table: Table, window: Window, boundary: datetime) -> bool:
        assert table.closes is not None
        if table.closes.expression == "never":
            return False
        seen = [
            (read.table, [(label, rows) for label, rows in sorted(self._slices(table, read, window, boundary))])
            for read in until_of(table)
        ]
        return crc32(repr((table.name, window.start, boundary, seen)).encode()) % int(table.closes.text[5:]) == 0

    def _slices(
        self, table: Table, read: Read, window: Window, boundary: datetime
    ) -> Iterator[tuple[datetime, object]]:
        """Return the slices that a window reads up to a boundary; each of them is done or skipped."""
        assert read.span is not None
        low = earlier(window.start, read.span, table.cadence.zone)
        slices = self.lake.tables[read.table].slices
        return ((label, rows) for label, rows in slices.items() if low <= label < boundary and rows)

    def _check(self, table: Table, window: Window, closing: Closing, holds: Mapping[ClosingCandidate, bool]) -> None:
        """Verify a tick that was just written against the definition."""
        key, tick = (table.name, window.start), closing.tick
        assert tick is not None
        assert closing.reason is not None
        where = f"{table.name}@{window.label} at {tick}, {closing.reason}"
        cadence = self.flow.tables[until_of(table)[0].table].cadence
        boundaries = [it.start for it in windows_of(cadence) if window.end <= it.start <= tick]
        assert boundaries[-1] == tick, f"{where}: not a boundary"
        before = self._before(table, window)
        assert before is None or tick >= before, f"{where}: before {before}"
        looked = self.seen[key] | {pair.boundary for pair, held in holds.items() if pair.window == window and not held}
        last = None
        if table.partial_after is not None:
            least = max(later(window.end, table.partial_after, table.cadence.zone), before or window.end)
            last = next((it.start for it in windows_of(cadence) if it.start >= least), None)
        if closing.reason == AT_LAST:
            assert tick == last, f"{where}: expected {last}"
        elif closing.reason == CONDITION:
            assert holds[ClosingCandidate(window, tick)], where
            assert last is None or tick <= last, f"{where}: after {last}"
        is_asked = table.closes is not None and table.closes.is_asked and closing.reason != BY_HAND
        wanted = {it for it in boundaries if it < tick and it >= (before or window.end)} if is_asked else set()
        assert wanted <= looked, f"{where}: unchecked boundaries {sorted(wanted - looked)}"
        self.ticks[key] = tick
        self.closed[closing.reason] += 1

    def _before(self, table: Table, window: Window) -> datetime | None:
        """Return the tick of the last closed window before this one. Skipped windows are ignored."""
        closed = {label: tick for (name, label), tick in self.ticks.items() if name == table.name}
        return max(((label, tick) for label, tick in closed.items() if label < window.start), default=(None, None))[1]

    def at_rest(self, now: datetime) -> None:
        """Verify that no check is pending, and that every boundary of the oldest open window was checked."""
        if not self.is_any:
            return
        snapshot = self.ledger.reads.snapshot(self.flow)
        for books in self.planner.books(snapshot, now):
            assert not books.pairs(), f"{books.table.name}: unchecked boundaries remain"
            first, closes = books.first_open(), books.table.closes
            limit = None if first is None else books.find_settled_boundary(first)
            if first is None or limit is None or closes is None:
                continue
            before = self._before(books.table, first) or first.end
            boundaries = {it.start for it in windows_of(books.cadence) if max(first.end, before) <= it.start <= limit}
            is_left = boundaries - self.seen[books.table.name, first.start] if closes.is_asked else set()
            assert not is_left, f"{books.table.name}@{first.label}: unchecked boundaries {sorted(is_left)}"


def until_of(table: Table) -> list[Read]:
    """Return the UNTIL reads of a table."""
    return [read for read in table.reads if read.kind is ReadKind.UNTIL]
