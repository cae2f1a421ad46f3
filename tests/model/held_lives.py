"""Simulates batches whose rows are held, refused or quarantined by rules: real planner and ledger over toy rows.

Runners overlap, and claims are lost. People release (directly, or by a request to a runner), retry, skip, recompute,
recollect, replay, withdraw, pause and fix the rules at any time. `Life.check` verifies the visible rows against the
commits alone; `Life.anew` computes the final state, once all is settled, from the sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from zlib import crc32

from tests.model.flows import collect, flow, latest, past, previous, publish, transform
from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, RECOMPUTE, RELEASE, BatchStatus, LedgerSnapshot
from waterclock.batches.records import QUARANTINED, BatchResult, Claim, ClaimRequest, Input
from waterclock.flow.declarations import Flow, Read
from waterclock.flow.enums import Kind, OnRestate, ReadKind
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.ledger_errors import ClaimRefused
from waterclock.planner.plan import NEEDS_SOMEBODY, TO_BE_RELEASED, Batch, Group, ReadScope, Status
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.selection import Labels
from waterclock.timelabel.window import Window

EVE = datetime(2020, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
Key = tuple[str, datetime]
Rows = tuple[int, ...]
MOST_ASIDE = 1  # with more quarantined rows, the batch is held
BOOM, DROPPED = 1000, 0


def flow_of(level: int, report: bool) -> Flow:
    """Declare the flow; each level of the rules is different code."""
    answer = OnRestate.REPORT if report else OnRestate.RECOMPUTE
    a = transform("web.a", ["web.u"])
    tables = [
        collect("web.u", start=EVE), collect("web.v", start=EVE), a,
        transform("web.b", ["web.a", previous("web.b")]),
        transform("web.c", [past("web.a", "3 days"), latest("web.v")], on_restate=answer),
        publish("out.p", a),
    ]  # fmt: skip
    coded = [replace(it, fingerprint=f"{it.name} {level}") for it in tables]
    return replace(flow(*coded), fingerprint=f"flow {level}")


@dataclass(frozen=True, slots=True)
class Sealed:
    """The rows that a claim sealed for one label: visible, quarantined, the number of dropped ones, and all inputs."""

    stay: Rows
    aside: Rows
    dropped: int
    came: Rows
    inputs: tuple[Input, ...]
    level: int
    ticks: Mapping[str, datetime]


@dataclass(slots=True)
class Flight:
    """A claim between its start and its end."""

    claim: Claim
    group: Group
    made: dict[datetime, Sealed]
    is_release: bool


@dataclass(slots=True)
class Life:
    """One simulation. `source`: rows of the sources; `lake`: committed rows; `stage`: rows sealed by claims."""

    random: Random
    report: bool = False
    now: datetime = EVE
    clock: datetime = datetime(2024, 1, 1, tzinfo=UTC)
    level: int = 0
    is_lenient: bool = False
    is_calm: bool = False
    source: dict[Key, Rows] = field(default_factory=dict)
    lake: dict[Key, Sealed] = field(default_factory=dict)
    shown_by: dict[Key, int] = field(default_factory=dict)
    stage: dict[tuple[str, datetime, int], Sealed] = field(default_factory=dict)
    held: dict[Key, int] = field(default_factory=dict)
    failed: set[Key] = field(default_factory=set)
    gone: set[Key] = field(default_factory=set)
    looked_at: dict[Key, int] = field(default_factory=dict)
    flights: list[Flight] = field(default_factory=list)
    commits: int = 0
    releases: int = 0
    refused: int = 0
    flow: Flow = field(init=False)
    planner: Planner = field(init=False)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger.open("sqlite://", clock=self._clock)
        self.mend(0)

    def _clock(self) -> datetime:
        self.clock += timedelta(seconds=1)
        return self.clock

    def mend(self, level: int) -> None:
        """Declare other rules."""
        self.level, self.flow = level, flow_of(level, self.report)
        self.planner = Planner(self.flow)
        self.ledger.declared.apply(self.flow, who="test", now=self.now, runner="test")

    def snapshot(self) -> LedgerSnapshot:
        return self.ledger.reads.snapshot(self.flow)

    # arriving rows and decisions of people

    def arrive(self) -> None:
        for name in ("web.u", "web.v"):
            self.source[name, self.now] = self._rows()
        self.now += DAY

    def _rows(self) -> Rows:
        odds = [*range(1, 9)] * 3 + [-1, -2, -3, -1, -2, -1, -2, -3, DROPPED, DROPPED]
        rows = [self.random.choice(odds) for _ in range(self.random.randrange(1, 5))]
        return (*rows, BOOM) if self.random.random() < 0.05 else tuple(rows)

    def decide(self) -> None:
        deeds = (
            self.release, self.ask_release, self.retry, self.skip, self.recompute, self.recollect,
            self.replay, self.withdraw, self.pause, self.mend_rule,
        )  # fmt: skip
        self.random.choices(deeds, (3, 5, 3, 1, 1, 3, 1, 1, 1, 1))[0]()

    def _one(self, keys: Iterable[Key]) -> Key | None:
        known = sorted(keys)
        return self.random.choice(known) if known else None

    def ask_release(self) -> None:
        if (key := self._one(self.held)) and key not in self._claimed():
            self.ledger.decisions.request_release(key[0], [key[1]], who="ann", why="fine")
            self.looked_at[key] = self.held[key]
            if self.random.random() < 0.3:  # and another user decides otherwise
                self.try_again(key)

    def release(self) -> None:
        """Release as the command does: plan as if no batch were held, and run at once."""
        if (key := self._one(self.held)) and key not in self._claimed():
            group = self.group_to_release(*key)
            if group is not None:
                self.looked_at[key] = self.held[key]
                self.take_off(group)

    def group_to_release(self, name: str, label: datetime) -> Group | None:
        snapshot = self.snapshot()
        facts = snapshot.of(name)
        others = {other: it for other, it in facts.troubles.items() if other != label}
        free = replace(snapshot, tables={**snapshot.tables, name: replace(facts, troubles=others)})
        asked = PlanRequest(only=(name,), labels=Labels.from_range(label, label), force={name: frozenset({label})})
        plan = self.planner.plan(free, self.now, asked)
        found = [it for it in plan.batches if (it.table, it.label, it.status) == (name, label, Status.READY)]
        return Group(name, (replace(found[0], verb=RELEASE, reason="fine"),)) if found else None

    def retry(self) -> None:
        if (key := self._one({*self.held, *self.failed, *self.gone})) and key not in self._claimed():
            self.try_again(key)

    def try_again(self, key: Key) -> None:
        self.ledger.decisions.retry(key[0], [key[1]], who="test")
        self.held.pop(key, None)
        self.looked_at.pop(key, None)
        self.failed.discard(key)
        self.gone.discard(key)

    def skip(self) -> None:
        open_ = {key for key in {*self.held, *self.failed} if key not in self.lake} - self._claimed()
        if key := self._one(open_):
            window = Window(key[1], key[1] + DAY)
            self.ledger.decisions.skip(key[0], [window], who="test", why="lost")
            self.held.pop(key, None)
            self.looked_at.pop(key, None)
            self.failed.discard(key)
            self.gone.add(key)

    def recompute(self) -> None:
        if key := self._one(self.lake):
            self.ledger.decisions.request_restate(key[0], [key[1]], RECOMPUTE, who="test")
            self.looked_at.pop(key, None)

    def recollect(self) -> None:
        if key := self._one(key for key in self.lake if key[0] in {"web.u", "web.v"}):
            self.source[key] = self._rows()
            self.ledger.decisions.request_restate(key[0], [key[1]], "recollect", who="test")
            self.looked_at.pop(key, None)

    def to_replay(self) -> set[Key]:
        """Return the labels that a replay makes again, from the ledger."""
        return {
            (name, label)
            for name, table in self.flow.tables.items()
            for label, (_, code) in self.ledger.reads.list_quarantined_labels(name).items()
            if code != table.fingerprint
        }

    def replay(self) -> None:
        for name, label in self.to_replay():
            self.ledger.decisions.request_restate(name, [label], RECOMPUTE, who="test")
            self.looked_at.pop((name, label), None)

    def withdraw(self) -> None:
        for name in self.flow.tables:
            facts = self.snapshot().of(name)
            for label in {*facts.requested, *facts.wanted} - {label for _, label in self._claimed(name)}:
                was_release = facts.requested.get(label) == RELEASE
                self.ledger.decisions.withdraw(name, [label], who="test")
                if was_release:
                    self.looked_at.pop((name, label), None)
                elif (name, label) in self.lake and label not in self.snapshot().of(name).troubles:
                    self.held.pop((name, label), None)
                    self.failed.discard((name, label))

    def pause(self) -> None:
        name = self.random.choice([*self.flow.tables])
        if self.snapshot().of(name).paused is None:
            self.ledger.decisions.pause_tables([name], who="test", why="x")
        else:
            self.ledger.decisions.resume_tables([name], who="test")

    def mend_rule(self) -> None:
        if not self.flights:
            self.mend((self.level + 1) % 3)

    def _claimed(self, name: str | None = None) -> set[Key]:
        every = ((it.group.table, label) for it in self.flights for label in it.made)
        return {key for key in every if name in {None, key[0]}}

    # work of runners

    def live(self, steps: int = 12) -> None:
        for _ in range(steps):
            for _ in range(self.random.choice((0, 0, 1, 1))):
                self.arrive()
            for _ in range(self.random.randrange(10)):
                odds = self.random.random()
                if odds < 0.3:
                    self.decide()
                elif odds < 0.65:
                    self.look()
                else:
                    self.go_on()
                if self.random.random() < 0.4:
                    self.check()

    def groups(self) -> tuple[Group, ...]:
        return self.planner.ready(self.snapshot(), self.now, PlanRequest(group_cap=self.random.choice((1, 3))))

    def look(self) -> bool:
        """Claim a ready group; return whether there was one."""
        groups = self.groups()
        if not groups:
            return False
        group = self.random.choice(groups)
        if not self.is_calm and self.random.random() < 0.15:
            self.decide()
        self.take_off(group)
        return True

    def take_off(self, group: Group) -> None:
        name = group.table
        inputs = self._inputs(group)
        is_release, is_asked = group.verb == RELEASE, False
        label = group.batches[0].label
        if is_release:
            sealed = self.ledger.reads.held_labels(name).get(label)
            is_asked = self.snapshot().of(name).requested.get(label) == RELEASE
            if group.batches[0].reason == TO_BE_RELEASED and not is_asked:
                return
            if sealed is None or _read(self.stage[name, label, sealed].inputs) != _read(inputs.get(label, ())):
                self.refused += 1
                self.ledger.decisions.refuse_release(name, label, who="test", why="it has changed")
                self.looked_at.pop((name, label), None)
                return
            made = {label: self.stage[name, label, sealed]}
        else:
            made = {it.label: self._make(group, it, inputs.get(it.label, ())) for it in group.batches}
        if not self.is_calm and self.random.random() < 0.15:  # other actors intervene between the read and the claim
            self.random.choice((self.decide, self.go_on))()
        request = ClaimRequest(
            table=name, labels=tuple(it.label for it in group.batches), code=self.flow.tables[name].fingerprint,
            flow=self.flow.fingerprint, runner="test", who="test", now=self.now, lease_seconds=1e6, target_version=-1,
            inputs=inputs, restates="a held batch is released" if is_release and not is_asked else None,
            held={label: sealed} if is_release and sealed else {},
        )  # fmt: skip
        try:
            claim = self.ledger.claims.take(request)
        except ClaimRefused:
            return
        if is_asked:
            assert self.looked_at[name, label] == sealed, "a user has seen the released batch"
        self.flights.append(Flight(claim, group, made, is_release))

    def _inputs(self, group: Group) -> dict[datetime, tuple[Input, ...]]:
        reads = [(batch.label, read) for batch in group.batches for read in batch.reads]
        pins = self.ledger.reads.pins([(read.read.table, read.low, read.high) for _, read in reads]) if reads else []
        found: dict[datetime, tuple[Input, ...]] = {}
        for (label, read), pin in zip(reads, pins, strict=True):
            kind = "state" if read.scope is ReadScope.STATE else "slices"
            found[label] = (*found.get(label, ()), pin.input(str(read.read), kind))
        return found

    def _make(self, group: Group, batch: Batch, inputs: tuple[Input, ...]) -> Sealed:
        key = (group.table, batch.label)
        ticks = {it.read.table: it.high for it in batch.reads if it.read.kind is ReadKind.LATEST}
        came: Rows
        if self.flow.tables[group.table].kind is Kind.COLLECT:
            kept = self.lake.get(key)
            came = self.source[key] if batch.verb != RECOMPUTE or kept is None else (*kept.stay, *kept.aside)
        else:
            came = self.combined(
                group.table, batch.label, {str(it.read): self._read(it.read, it.low, it.high) for it in batch.reads}
            )
        return replace(self.judged(came), inputs=inputs, ticks=ticks)

    def _read(self, read: Read, low: datetime, high: datetime) -> Rows:
        found = [(label, it.stay) for (name, label), it in self.lake.items() if name == read.table]
        return tuple(row for label, rows in sorted(found) if low <= label < high for row in rows)

    @staticmethod
    def combined(name: str, label: datetime, read: Mapping[str, Rows]) -> Rows:
        if name in {"web.a", "out.p"}:
            return tuple(rows for of in read.values() for rows in of)
        text = repr((name, label, sorted(read.items())))
        return (crc32(text.encode()) % 11 - 2, crc32(text.encode()[::-1]) % 11 - 2)

    def judged(self, came: Rows) -> Sealed:
        """Split rows by the current rules: a higher level quarantines fewer."""
        stay = tuple(it for it in came if it != DROPPED and it >= -self.level)
        aside = tuple(it for it in came if it < -self.level)
        return Sealed(stay, aside, came.count(DROPPED), came, (), self.level, {})

    def go_on(self) -> None:
        """End a claim: lost, refused, held or committed."""
        if not self.flights:
            return
        flight = self.flights.pop(self.random.randrange(len(self.flights)))
        name, claims = flight.group.table, self.ledger.claims
        if not self.is_calm and self.random.random() < 0.12:
            claims.close_lost(flight.claim, "its lease ran out")
            for label in flight.made:  # a release without a request in the ledger belonged to its command alone
                if self.snapshot().of(name).requested.get(label) != RELEASE:
                    self.looked_at.pop((name, label), None)
            return
        if not flight.is_release and not self.is_lenient:
            bad = [it for it in flight.made.values() if BOOM in it.came or len(it.aside) > MOST_ASIDE]
            if bad and len(flight.made) > 1:
                claims.close_lost(flight.claim, "to be taken in parts")
                return
            if bad:
                self._refused(flight, bad[0])
                return
        self.commits += 1
        results = [
            BatchResult(
                label=label, end=label + DAY, version=flight.claim.number, rows=len(it.stay), bytes=1,
                digest=f"{len(it.stay)}:{crc32(repr(sorted(it.stay)).encode())}:0", slice_path="x",
                measures={QUARANTINED: len(it.aside)},
            )
            for label, it in flight.made.items()
        ]  # fmt: skip
        claims.record_done(flight.claim, results)
        for label, it in flight.made.items():
            key = (name, label)
            if flight.is_release:
                self.releases += 1
            self.lake[key], self.shown_by[key] = it, flight.claim.number
            self.looked_at.pop(key, None)
            self.held.pop(key, None)
            self.failed.discard(key)

    def _refused(self, flight: Flight, made: Sealed) -> None:
        name, [label] = flight.group.table, flight.made
        status = BatchStatus.FAILED if BOOM in made.came else BatchStatus.HELD
        self.stage[name, label, flight.claim.number] = made
        self.ledger.claims.record_failed(flight.claim, error="E755 no", is_transient=False, status=status, own=[label])
        if status is BatchStatus.HELD:
            self.held[name, label] = flight.claim.number
            self.failed.discard((name, label))
        else:
            self.failed.add((name, label))
            self.held.pop((name, label), None)

    # invariants

    def check(self) -> None:
        """Verify at any time that the visible rows are the committed ones, and that reported blockers do block."""
        claimed = self._claimed()
        for name in self.flow.tables:
            seen = {it.label: it.claim for it in self.ledger.reads.slices(name, BEGINNING, FOREVER)}
            assert seen == {label: claim for (of, label), claim in self.shown_by.items() if of == name}, name
            held = {(name, label): claim for label, claim in self.ledger.reads.held_labels(name).items()}
            assert held == {it: no for it, no in self.held.items() if it[0] == name and it not in claimed}, name
        for key, made in self.lake.items():
            assert sorted(made.came) == sorted((*made.stay, *made.aside, *[DROPPED] * made.dropped)), key
        plan = self.planner.plan(self.snapshot(), self.now)
        for batch in plan.batches:
            for cause in batch.causes:
                if cause.status in NEEDS_SOMEBODY:
                    assert (cause.table, cause.window.start) in {*self.held, *self.failed}, batch.reason
            stopped = (batch.table, batch.label) in {*self.held, *self.failed} - claimed
            asked = (batch.table, batch.label) in self.looked_at
            assert (batch.status in {Status.HELD, Status.FAILED}) == (stopped and not asked), (batch, self.looked_at)
            if batch.status is Status.READY and batch.verb == RELEASE:
                assert asked, batch
                assert stopped, batch
        assert {(it.table, b.label) for it in plan.groups for b in it.batches} <= {
            (it.table, it.label) for it in plan.batches if it.status is Status.READY
        }

    def settle(self) -> None:
        """Finish all work: people resume, fix rules, release or retry until nothing remains."""
        self.is_calm = True
        for name in self.flow.tables:
            if self.snapshot().of(name).paused is not None:
                self.ledger.decisions.resume_tables([name], who="test")
        for _ in range(40):
            self._rest()
            self.check()
            left = {*self.held, *self.failed}
            reported = self.planner.plan(self.snapshot(), self.now).reported
            asked = [(name, label) for name, labels in reported.items() for label in labels]
            for name, label in asked:
                self.ledger.decisions.request_restate(name, [label], RECOMPUTE, who="test")
            if not left and not asked and not self.to_replay():
                return
            if not left and not asked:
                self.replay()
            self.is_lenient = self.is_lenient or self.random.random() < 0.3
            self._decide_of(left)
        raise AssertionError("work remains after 40 rounds")

    def _rest(self) -> None:
        for _ in range(600):
            while self.flights:
                self.go_on()
            if not self.look():
                return
        raise AssertionError("a batch runs in every round")

    def _decide_of(self, left: Iterable[Key]) -> None:
        for key in sorted(left):
            if key in self.held and self.random.random() < 0.5:
                self.ledger.decisions.request_release(key[0], [key[1]], who="ann", why="fine")
                self.looked_at[key] = self.held[key]
            else:
                self.try_again(key)

    def anew(self) -> dict[Key, Rows]:
        """Make all tables from the rows of their sources, in one pass."""
        made: dict[Key, Rows] = {key: it.stay for key, it in self.lake.items() if key[0] in {"web.u", "web.v"}}
        days = [EVE + n * DAY for n in range((self.now - EVE).days)]

        def span(name: str, low: datetime, high: datetime) -> Rows:
            return tuple(row for day in days if low <= day < high for row in made.get((name, day), ()))

        for name in ("web.a", "web.b", "web.c", "out.p"):
            for day in days:
                key, end = (name, day), day + DAY
                if key in self.gone:
                    continue
                tick = self.lake[key].ticks.get("web.v", EVE) if key in self.lake else EVE  # as of its first run
                reads = {
                    "web.a": {"web.u": span("web.u", day, end)},
                    "out.p": {"web.a": span("web.a", day, end)},
                    "web.b": {"web.a": span("web.a", day, end), "PREVIOUS(web.b)": span("web.b", day - DAY, day)},
                    "web.c": {
                        "PAST(web.a, '3 DAYS')": span("web.a", end - 3 * DAY, end),
                        "LATEST(web.v)": span("web.v", tick - DAY, tick),
                    },
                }[name]
                # rows that were split by older rules stay so until they are requested again
                level = self.lake[key].level if key in self.lake else self.level
                came = self.combined(name, day, reads)
                made[key] = tuple(it for it in came if it != DROPPED and it >= -level)
        return made


def _read(inputs: tuple[Input, ...]) -> list[tuple[object, ...]]:
    return [(it.table, it.read, it.low, it.high, it.content) for it in inputs]
