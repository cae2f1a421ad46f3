"""Drives a random flow: the real planner and ledger over a toy lake, with interruptions and failures in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from tests.model.bookkeeping import Bookkeeper
from tests.model.oracle import Key
from tests.model.random_flow import EVE, RandomFlow
from tests.model.toy import Rows, ToyLake, ToyTable, digest
from waterclock.batches.ledger_snapshot import FOLLOW, BatchStatus, LedgerSnapshot, Missing
from waterclock.batches.records import BatchResult, Claim, ClaimRequest, Input
from waterclock.engine.earlier_starts import find_shortened_reads
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Batching, Kind
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.ledger_errors import ClaimRefused
from waterclock.planner.first_windows import starts_to_write
from waterclock.planner.plan import Batch, BoundRead, Group, ReadScope
from waterclock.planner.planning import Planner
from waterclock.planner.prerequisites import Prerequisites
from waterclock.planner.request import PlanRequest
from waterclock.selection import Labels
from waterclock.timelabel.window import Window

CODE = "code"
FIRST_START = EVE - timedelta(days=4)  # the oracle's era covers all reads from there on


class Clock:
    """The ledger's wall clock: each call advances it by a second, except every fourth."""

    def __init__(self) -> None:
        self.at = datetime(2024, 1, 1, tzinfo=UTC)
        self.looks = 0

    def __call__(self) -> datetime:
        self.looks += 1
        self.at += timedelta(seconds=self.looks % 4 > 0)
        return self.at


@dataclass(frozen=True, slots=True)
class Flight:
    """A claim between its start and its commit, with its rows already made."""

    claim: Claim
    group: Group
    made: dict[datetime, Rows]
    evidence: dict[datetime, object]
    seen: dict[datetime, int | None]
    turn: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One label committed at an instant of the ledger's clock: its rows, its reads, and their state at that time.

    `missing`: the inputs that it was made without.
    """

    at: datetime
    table: str
    label: datetime
    rows: Rows
    stands_from: datetime | None
    reads: tuple[BoundRead, ...]
    evidence: object
    missing: tuple[Missing, ...] = ()


@dataclass(slots=True)
class Driver:
    """One simulation of one flow; `log` contains all its commits, oldest first.

    `commits`: number of batches committed since the last restatement. `is_wild`: batches are restated while they and
    others are being made, so the number of runs is not predictable. `is_calm`: no user decides anything. `pause_rate`:
    how often single tables or all of them are paused and resumed; `refused`: number of claims refused because of a
    pause. `begins_earlier`: START moves back at the end; `began`: the starts of tables before that; `begun_earlier`:
    number of batches requested because of it. `partial`: batches that were made without some inputs; `went_without`:
    how many there ever were.
    """

    random: Random
    flow: Flow
    lake: ToyLake
    ledger: Ledger
    clock: Clock
    planner: Planner
    now: datetime = EVE
    flights: list[Flight] = field(default_factory=list)
    evidence: dict[Key, object] = field(default_factory=dict)
    asked: dict[Key, int] = field(default_factory=dict)
    commits: Counter[Key] = field(default_factory=Counter)
    revisions: int = 0
    batches: int = 0
    looks: dict[str, dict[datetime, int]] = field(default_factory=dict)
    ticks: dict[Key, dict[str, datetime]] = field(default_factory=dict)
    skipped: set[Key] = field(default_factory=set)
    first_look: datetime = EVE
    log: list[Commit] = field(default_factory=list)
    trouble_rate: float = 0.0
    is_wild: bool = False
    is_calm: bool = False
    pause_rate: float = 0.0
    refused: int = 0
    books: Bookkeeper = field(init=False)
    partial: set[Key] = field(default_factory=set)
    went_without: int = 0
    turn: int = 0
    begins_earlier: bool = False
    begun_earlier: int = 0
    released: int = 0
    began: dict[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.books = Bookkeeper(self.random, self.flow, self.lake, self.ledger, self.planner)

    @classmethod
    def of(cls, made: RandomFlow, random: Random) -> Driver:
        """Apply a flow to a new ledger."""
        clock = Clock()
        ledger = Ledger.open("sqlite://", clock=clock)
        lake = ToyLake({name: ToyTable(table) for name, table in made.flow.tables.items()}, made.grains)
        is_wild = random.random() < 0.25 or any(table.partial_after for table in made.flow.tables.values())
        driver = cls(random, made.flow, lake, ledger, clock, Planner(made.flow), is_wild=is_wild)
        ledger.declared.apply(made.flow, who="test", now=driver.now, runner="test")
        driver.first_look = driver.now
        return driver

    def snapshot(self) -> LedgerSnapshot:
        return self.ledger.reads.snapshot(self.flow)

    def ready(self) -> list[Group]:
        """Return the batches that may be claimed; sometimes compare them with the whole plan."""
        self.books.look(self.now)
        snapshot, group_cap = self.snapshot(), self.random.choice((1, 3, 50))
        if self.random.random() < 0.9:
            request = PlanRequest(cap=self.random.choice((2, 50)), group_cap=group_cap)
            return list(self.planner.ready(snapshot, self.now, request))
        request = PlanRequest(cap=10_000, group_cap=group_cap)
        groups = self.planner.ready(snapshot, self.now, request)
        assert groups == self.planner.plan(snapshot, self.now, request).groups
        return list(groups)

    def live(self, pauses: Sequence[float] = (0.0, 0.0, 0.1)) -> None:
        """Run through outages, restatements, troubles and pauses, and finish all work at the end."""
        for _ in range(self.random.choice((2, 3, 4))):
            self.trouble_rate = self.random.choice((0.0, 0.0, 0.15))
            self.pause_rate = self.random.choice(pauses)
            self.rest()
            self.pass_time()
            self.restate()
        self.trouble_rate = self.pause_rate = 0.0
        self.resume()
        self.clear_troubles()
        self.rest()
        if self.random.random() < 0.5:
            self.change_the_beginning()
            self.rest()
        if self.begins_earlier:
            self.begin_earlier()
            self.rest()

    def rest(self, most: int = 1_000_000) -> None:
        """Run ready batches in any order until none remains; each batch must need only one run.

        A ready batch stays ready while others are made and committed, so it need not be planned again. `most`: the
        maximum number of claims; a lower number leaves work half done.
        """
        self.commits.clear()
        self.ledger.declared.set_starts(starts_to_write(self.flow, self.snapshot(), self.now), who="test")
        ready: list[Group] = []
        interruptions = self.random.randint(1, 5) if self.is_wild else 0
        while True:
            self.turn += 1
            if interruptions and self.random.random() < 0.05:
                interruptions -= 1
                self.restate()
                ready = []
            if self.random.random() < self.pause_rate:
                self.pause_or_resume([group.table for group in ready] or sorted(self.flow.tables))
            if self.books.is_any and self.random.random() < 0.2:
                self.keep_books()
            if most and (not ready or self.random.random() < 0.2):
                ready = self.ready()
            if not (ready and most) and not self.flights:
                if self.pause_rate and self.random.random() < 0.7 and self.resume():
                    continue
                if most and self.release_restatements():
                    continue
                self.end_following()
                return
            if ready and most and (not self.flights or self.random.random() < 0.6):
                most -= 1
                self.take_off(ready.pop(self.random.randrange(len(ready))))
            else:
                self.land(self.flights.pop(self.random.randrange(len(self.flights))))

    def keep_books(self) -> None:
        """Let another runner check the books, write the result of a check, or close a window by hand."""
        if self.random.random() < 0.4:
            self.books.look(self.now, is_late=True)
        elif self.random.random() < 0.6:
            self.books.write()
        elif not self.is_calm and self.random.random() < 0.3:
            self.books.by_hand(self.now)
        elif not self.is_calm and self.random.random() < 0.3 and (found := self.books.any_open(self.now)):
            name, window = found
            self.ledger.decisions.skip(name, [window], who="test", why="nobody misses it")
            self.skipped.add((name, window.start))

    def make(self, needed: Prerequisites) -> None:
        """Make only the batches that a query needs, as `query --make` does."""
        self.is_wild = False
        self.commits.clear()
        for name, labels in needed.follow.items():
            self.ledger.decisions.request_restate(name, sorted(labels), FOLLOW, who="test")
        spans = {name: Labels.from_range(*span) for name, span in needed.spans.items()}
        while True:
            self.books.look(self.now)
            snapshot = self.snapshot()
            covered = {name: snapshot.of(name).covered for name in needed.force}
            force = {
                name: frozenset(label for label in labels if not covered[name].covers_instant(label))
                for name, labels in needed.force.items()
            }
            groups = self.planner.ready(snapshot, self.now, PlanRequest(only=spans, labels=spans, force=force))
            if not groups:
                break
            self.take_off(self.random.choice(groups))
            self.land(self.flights.pop())
        self.end_following()

    def end_following(self) -> None:
        """Remove unneeded requests to follow, as a run does at its end."""
        for name, labels in self.planner.find_labels_to_follow(self.snapshot(), self.now).items():
            self.ledger.decisions.end_following(name, labels, who="test")

    def release_restatements(self) -> bool:
        """Release restatements held by limits of ON RESTATE, all labels or some; return whether there were any.

        No other work remains at that time, so none of the held labels was made and the restatement has its full size.
        """
        held = self.planner.find_held_restatements(self.snapshot(), self.now)
        for name in sorted(held)[: self.random.choice((1, 2, len(held)))]:
            labels = sorted(held[name].labels)
            assert len(labels) > (self.flow.tables[name].restate_at_most or 0)
            some = labels if self.random.random() < 0.7 else labels[: self.random.randint(1, len(labels))]
            self.ledger.decisions.request_restate(name, some, FOLLOW, who="test")
            self.released += len(some)
        return bool(held)

    def pass_time(self) -> None:
        """Advance the time by minutes, or by an outage of days; sources continue meanwhile."""
        finest = min(table.cadence.period.minutes for table in self.flow.tables.values())
        windows = self.random.choice((0.3, 1, 2, 5, 12))
        later = self.now + min(timedelta(minutes=5 * round(windows * finest / 5)), timedelta(days=3))
        self.now = min(later, EVE + timedelta(days=9))

    def take_off(self, group: Group) -> None:
        """Claim a group and make its batches from the current inputs."""
        table = self.flow.tables[group.table]
        request = ClaimRequest(
            table=group.table,
            labels=tuple(batch.label for batch in group.batches),
            code=CODE,
            flow=self.flow.fingerprint,
            runner="test",
            who="test",
            now=self.now,
            lease_seconds=1e6,
            target_version=-1,
            inputs=self._inputs(group),
        )
        if self.pause_rate and self.snapshot().pause_of(group.table) is not None:  # paused since it was planned
            with pytest.raises(ClaimRefused) as refused:
                self.ledger.claims.take(request)
            assert refused.value.code == "E429"
            self.refused += 1
            return
        claim = self.ledger.claims.take(request)
        seen = {batch.label: self._look(table, batch.window) for batch in group.batches}
        made = {
            batch.label: self.lake.make(table, batch.window, batch.reads, seen[batch.label]) for batch in group.batches
        }
        evidence: dict[datetime, object] = {batch.label: self.lake.evidence(batch.reads) for batch in group.batches}
        self.flights.append(Flight(claim, group, made, evidence, seen, self.turn))

    def land(self, flight: Flight) -> None:
        """Commit a claim, or let it fail, be held or be lost."""
        fate = self.random.random()
        if fate >= self.trouble_rate:
            self._commit(flight)
        elif fate < self.trouble_rate / 3:
            self.ledger.claims.close_lost(flight.claim, "its lease ran out")
        else:
            is_held = fate < self.trouble_rate / 2
            again = self.clock.at + timedelta(seconds=30) if self.random.random() < 0.5 and not is_held else None
            status = BatchStatus.HELD if is_held else BatchStatus.FAILED
            self.ledger.claims.record_failed(
                flight.claim, error="boom", is_transient=again is not None, status=status, due_again=again
            )

    def restate(self) -> None:
        """Change some sources, and request restatements of some batches, whether or not their rows will change."""
        done = [(name, label) for name, toy in self.lake.tables.items() for label in toy.slices]
        again = [
            (flight.group.table, b.label) for flight in self.flights for b in flight.group.batches if b.is_revision
        ]
        done = again if again and self.random.random() < 0.5 else done
        for name, label in self.random.sample(done, min(len(done), self.random.choice((0, 1, 1, 2, 4)))):
            if self.random.random() < 0.7:
                key = (name, label)
                self.lake.source[key] = self.lake.source.get(key, 0) + 1
            verb = self.random.choice(("recompute", "recollect"))
            if self.random.random() < 0.5:
                self.follow(verb, name, label)
            self.ledger.decisions.request_restate(name, [label], verb, who="test")
            self.asked[name, label] = self.turn

    def change_the_beginning(self) -> None:
        """Change the oldest windows of each collect, as late rows do, without a request that older states follow."""
        for name, toy in self.lake.tables.items():
            if toy.table.kind is Kind.COLLECT and not toy.table.is_snapshot:
                for label in sorted(toy.slices)[: self.random.choice((1, 2))]:
                    self.lake.source[name, label] = self.lake.source.get((name, label), 0) + 1
                    self.ledger.decisions.request_restate(name, [label], "recollect", who="test")
                    self.asked[name, label] = self.turn

    def begin_earlier(self) -> None:
        """Move START of data-time collects back by some windows, in a new flow that is applied."""
        self.began = dict(self.planner.starts(self.snapshot(), self.now))
        tables = dict(self.flow.tables)
        for name, table in tables.items():
            source = table.source
            if source is not None and source.batching is Batching.DATA_TIME and table.start is not None:
                start = table.start
                for _ in range(self.random.choice((0, 1, 2, 4))):
                    start = max(table.cadence.previous(start), min(start, FIRST_START))
                tables[name] = replace(table, start=start)
        self.flow = replace(self.flow, tables=tables, fingerprint=f"{self.flow.fingerprint}, begun earlier")
        self.planner = self.books.planner = Planner(self.flow)
        self.books.flow = self.flow
        for name, toy in self.lake.tables.items():
            toy.table = tables[name]
        self.ledger.declared.apply(self.flow, who="test", now=self.now, runner="test", reading_back=self._reading_back)

    def _reading_back(self) -> dict[str, tuple[datetime, ...]]:
        again = find_shortened_reads(self.ledger, self.flow, self.now)
        self.begun_earlier += sum(map(len, again.values()))
        self.asked |= {(name, label): self.turn for name, labels in again.items() for label in labels}
        return again

    def follow(self, verb: str, name: str, label: datetime) -> None:
        """Request, as `recompute` does, that the older states that depend on a batch follow it."""
        asking: dict[tuple[str, str], Collection[datetime]] = {(verb, name): [label]}
        asked = self.ledger.reads.snapshot(self.flow, asking=asking)
        resting = self.planner.find_dependent_labels(asked, self.now, {name: [label]})
        asking |= {(FOLLOW, other): labels for other, labels in resting.items()}
        assert asked.add_followers(resting) == self.ledger.reads.snapshot(self.flow, asking=asking)
        for other, labels in resting.items():
            self.ledger.decisions.request_restate(other, sorted(labels), FOLLOW, who="test")

    def behind(self) -> dict[str, tuple[datetime, ...]]:
        """Return the older states that the plan reports as behind."""
        return dict(self.planner.plan(self.snapshot(), self.now).behind)

    def catch_up(self, behind: Mapping[str, Iterable[datetime]]) -> None:
        """Request that states that are behind are made again, and finish all work without other events."""
        self.is_wild, self.is_calm = False, True
        for name, labels in behind.items():
            self.ledger.decisions.request_restate(name, sorted(labels), FOLLOW, who="test")
        self.rest()

    def pause_or_resume(self, names: Sequence[str]) -> None:
        """Pause one of these tables or all, or resume; batches planned before are still tried."""
        snapshot, decisions = self.snapshot(), self.ledger.decisions
        name = self.random.choice(names)
        if self.random.random() < 0.2:
            if snapshot.paused is None:
                decisions.pause_all(who="test", why="all")
            else:
                decisions.resume_all(who="test")
        elif snapshot.of(name).paused is None:
            decisions.pause_tables([name], who="test", why="one")
        else:
            decisions.resume_tables([name], who="test")

    def resume(self) -> bool:
        """Resume all tables; return whether any was paused."""
        snapshot = self.snapshot()
        if snapshot.paused is not None:
            self.ledger.decisions.resume_all(who="test")
        if names := [name for name in self.flow.tables if snapshot.of(name).paused is not None]:
            self.ledger.decisions.resume_tables(names, who="test")
        return bool(names or snapshot.paused)

    def clear_troubles(self) -> None:
        """Retry failed batches, and skip some of them."""
        for name, facts in self.snapshot().tables.items():
            for label in facts.troubles:
                is_new = not facts.covered.covers_instant(label)
                table = self.flow.tables[name]
                if is_new and not table.is_snapshot and self.random.random() < 0.3:
                    window = table.cadence.window_of(label)
                    self.ledger.decisions.skip(name, [window], who="test", why="not worth it")
                    self.skipped.add((name, label))
                else:
                    self.ledger.decisions.retry(name, [label], who="test")

    def _inputs(self, group: Group) -> dict[datetime, tuple[Input, ...]]:
        reads = [(batch.label, read) for batch in group.batches for read in batch.reads]
        pins = self.ledger.reads.pins([(read.read.table, read.low, read.high) for _, read in reads]) if reads else []
        inputs: dict[datetime, tuple[Input, ...]] = {}
        for (label, read), pin in zip(reads, pins, strict=True):
            pinned = Input(
                table=pin.table,
                read=str(read.read),
                kind="state" if read.scope is ReadScope.STATE else "slices",
                low=pin.low,
                high=pin.high,
                location=pin.location,
                version=pin.version,
                content=pin.content,
            )
            inputs[label] = (*inputs.get(label, ()), pinned)
        return inputs

    def _look(self, table: Table, window: Window) -> int | None:
        """Poll the source: a snapshot returns its current content, all others that of their window."""
        if table.kind is not Kind.COLLECT:
            return None
        changes = self.lake.source.get((table.name, window.start), 0)
        if table.is_snapshot:
            return changes * 1000 + int((self.now - EVE) / timedelta(hours=5))
        return changes

    def _commit(self, flight: Flight) -> None:
        name = flight.group.table
        toy = self.lake.tables[name]
        results: list[BatchResult] = []
        for batch in flight.group.batches:
            rows = flight.made[batch.label]
            results.append(
                BatchResult(
                    label=batch.label,
                    end=batch.window.end,
                    version=flight.claim.number,  # whichever is recorded first
                    rows=len(rows),
                    bytes=len(rows),
                    digest=digest(rows),
                    slice_path=str(len(self.log) + len(results)),
                    stands_from=batch.stands_from,
                    source={"missing": [it.to_dict() for it in batch.missing]} if batch.missing else {},
                )
            )
        self.ledger.claims.record_done(flight.claim, results)
        at = self.clock.at
        for batch in flight.group.batches:
            rows, evidence = flight.made[batch.label], flight.evidence[batch.label]
            self.log.append(
                Commit(at, name, batch.label, rows, batch.stands_from, batch.reads, evidence, batch.missing)
            )
            self._note(flight, batch)
            toy.slices[batch.label] = flight.made[batch.label]
            if batch.stands_from is not None:
                toy.stands[batch.label] = batch.stands_from

    def _note(self, flight: Flight, batch: Batch) -> None:
        """Record the facts that the oracle needs; verify that a batch runs again only once and only for a reason."""
        key = (batch.table, batch.label)
        node = self.planner.graph.nodes[batch.table]
        if node.is_ordered and not node.is_made_if_needed and not batch.is_revision:
            began = self.began.get(batch.table, batch.label)  # labels added by an earlier START run last
            done = [it for it in self.lake.tables[batch.table].slices if (it < began) == (batch.label < began)]
            assert not done or max(done) < batch.label, f"{key} ran out of label order"
        self.batches += 1
        self.commits[key] += 1
        assert self.commits[key] == 1 or self.is_wild, f"{key} ran twice for one restatement"
        if (tick := self.books.ticks.get(key)) is not None:
            assert {read.high for read in batch.reads if read.read.kind == "until"} == {tick}, (
                f"{key} does not read up to its tick"
            )
        if batch.is_revision:
            self.revisions += 1
            is_new = flight.evidence[batch.label] != self.evidence[key] or key in self.partial
            assert key in self.asked or is_new, f"{key} ran again without a changed input"
        self.partial.discard(key)
        if batch.missing:
            self.partial.add(key)
            self.went_without += 1
        if self.asked.get(key, flight.turn) <= flight.turn:
            self.asked.pop(key, None)
        self.evidence[key] = flight.evidence[batch.label]
        seen = flight.seen[batch.label]
        if self.flow.tables[batch.table].is_snapshot and seen is not None:
            self.looks.setdefault(batch.table, {})[batch.label] = seen
        ticks = {read.read.table: read.high for read in batch.reads if read.read.kind == "latest"}
        if ticks:
            kept = self.ticks.setdefault(key, ticks)
            assert kept == ticks, f"{key}: a revision must keep the ticks that LATEST picked"
