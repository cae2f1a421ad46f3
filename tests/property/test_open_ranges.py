"""Open windows of a log: whatever ticks, batches and users do in between, each record is shown once, in its window.

The ledger and the log are lists. Which labels a tick reads, which records they get, and which of them a view shows is
decided by the engine's own functions, and so are the ranges of batches. Each rule that is left out is found to be
wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from waterclock.batches.ledger_snapshot import BatchStatus, FailedBatch, LedgerSnapshot, TableFacts
from waterclock.connectors.interface import Item, Positions
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.collect.open_items import OpenItems, find_labels_to_keep
from waterclock.engine.collect.positions import find_open_ranges, owned_by_labels, ranges_of
from waterclock.engine.continuous.open_labels import find_open_labels
from waterclock.engine.query.speed_windows import choose_open_labels
from waterclock.flow.declarations import Flow
from waterclock.planner.plan import Batch, Group, Status
from waterclock.storage.commit.speed_tables import SpeedState
from waterclock.timelabel.intervals import IntervalSet

START = datetime(2020, 1, 1, tzinfo=UTC)
LENGTH = timedelta(minutes=5)
LIVES, STEPS = 60, 500
SAFE = "as documented"
WRONG = ("the newest window gets the records", "a due window is read")
FLOW = """
CREATE CONNECTION bus TYPE kafka;
COLLECT web.clicks PARTITIONED (id BIGINT) FROM bus.clicks EVERY 5 MINUTES {delay} START '2020-01-01' BY ARRIVAL TIME
  CONTINUOUS 10 SECONDS;
"""
Actor = Generator[None, None, None]
Ids = frozenset[tuple[str, int]]


@pytest.fixture(scope="module", params=["", "DELAY 7 MINUTES"], ids=["no delay", "delay"])
def flow(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Flow:
    root = tmp_path_factory.mktemp("log")
    toml = '[project]\nname = "log"\n[env.dev]\nstorage = ".waterclock"\nconnections.bus = { servers = "a:1" }\n'
    (root / "waterclock.toml").write_text(toml)
    (root / "flows").mkdir()
    (root / "flows" / "flow.dpl").write_text(FLOW.format(delay=request.param))
    return load_project(Path(root), capabilities=capabilities()).flow


@dataclass
class GrowingLog:
    """A log of parts with their first positions and their ends. It only grows, unless it is made anew."""

    name: str = "log 1"
    ends: dict[str, int] = field(default_factory=lambda: {"0": 0})

    def next_range(self, unit: Any, reached: Positions | None, first: datetime) -> Positions | None:
        del unit, first
        lows = {} if reached is None or reached.of != self.name else {p: end for p, (_, end) in reached.parts.items()}
        parts = {part: (lows.get(part, 0), end) for part, end in self.ends.items()}
        is_new = reached is None or reached.of != self.name or parts.keys() != lows.keys()
        return Positions(self.name, parts) if is_new or any(low < end for low, end in parts.values()) else None

    def resolve_unit(self, unit: Any) -> Any:
        return unit

    def collector(self, name: str) -> GrowingLog:
        del name
        return self

    def read_items(self, *_: Any) -> Any: ...

    def archive(self, *_: Any) -> Any: ...

    def clock(self, *_: Any) -> Any: ...

    def schema(self, *_: Any) -> Any: ...

    def explain(self, *_: Any) -> Any: ...


@dataclass
class LedgerLists:
    """What the ledger knows of the table: the ranges of labels, in the order of claims, and labels that are done."""

    owned: dict[datetime, Mapping[str, Any]] = field(default_factory=dict)
    done: dict[datetime, Ids] = field(default_factory=dict)
    skipped: set[datetime] = field(default_factory=set)

    def owned_items(self, name: str, labels: Iterable[datetime], span: Any) -> tuple[Any, Any]:
        del name, span
        kept = {label: (self.owned[label],) for label in labels if label in self.owned}
        last = max(self.owned.items(), key=lambda each: str(each[1]["name"]), default=None)
        return kept, last

    def items_around(self, *_: Any) -> list[Any]:
        return sorted(self.owned.items())

    def newest(self, name: str) -> Any:
        del name
        return SimpleNamespace(label=max(self.done)) if self.done else None

    def table(self, name: str) -> Any:
        del name
        return SimpleNamespace(start=START)


def ids_of(items: Iterable[Item]) -> Ids:
    spans = [(part, span) for item in items if item.positions for part, span in item.positions.parts.items()]
    return frozenset((part, at) for part, (low, high) in spans for at in range(low, high))


@dataclass
class Life:
    """One history: the log, the ledger, and the newest state of the open windows."""

    flow: Flow
    random: Random
    rule: str = SAFE
    now: datetime = START + timedelta(seconds=1)
    log: GrowingLog = field(default_factory=GrowingLog)
    ledger: LedgerLists = field(default_factory=LedgerLists)
    held: set[datetime] = field(default_factory=set)
    withdrawn: set[datetime] = field(default_factory=set)  # held at some time, also those that a user retried
    opened: dict[datetime, tuple[Item, ...]] = field(default_factory=dict)
    head: dict[datetime, Ids] = field(default_factory=dict)
    version: int = 0
    seen: dict[tuple[str, int], datetime] = field(default_factory=dict)
    wrong: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    shown: int = 0
    failed: int = 0
    outages: int = 0
    is_away: bool = False  # the log does not answer

    @property
    def table(self) -> Any:
        return self.flow.tables["web.clicks"]

    @property
    def work(self) -> Any:
        return SimpleNamespace(connections=self.log, ledger=SimpleNamespace(reads=self.ledger))

    def facts(self) -> TableFacts:
        settled = [*self.ledger.done, *self.ledger.skipped]
        covered = IntervalSet.from_intervals(sorted((label, label + LENGTH) for label in settled))
        troubles = {label: FailedBatch(BatchStatus.HELD, 1, 1, "", is_transient=False) for label in self.held}
        return TableFacts(START, covered, troubles)

    # the actors

    def pass_time(self) -> None:
        self.now += self.random.choice((timedelta(seconds=50), timedelta(seconds=1), LENGTH, 3 * LENGTH))

    def arrive(self) -> None:
        part = self.random.choice((*self.log.ends, *([str(len(self.log.ends))] if self.random.random() < 0.02 else ())))
        self.log.ends[part] = self.log.ends.get(part, 0) + self.random.randrange(3)

    def skip(self) -> None:
        """A user skips the oldest label that is not done, with what it owns."""
        label = self._oldest()
        if self.random.random() < 0.2 and label + LENGTH <= self.now and label not in self.head:
            self.ledger.skipped.add(label)
            self.held.discard(label)

    def _oldest(self) -> datetime:
        gap = self.facts().covered.first_gap(START, self.now + LENGTH)
        assert gap is not None
        return gap[0]

    def collect(self) -> Actor:
        """Make the batches of one claim, as a table whose labels are made in order: the oldest first."""
        first, cadence = self._oldest(), self.table.cadence
        windows = [cadence.window_of(first + number * LENGTH) for number in range(self.random.choice((1, 1, 2, 3)))]
        windows = [each for each in windows if cadence.due_at(each) <= self.now and each.start not in self.ledger.done]
        if not windows or first in self.held:
            self.held -= {first} if self.random.random() < 0.5 else set()  # a user retries it
            return
        labels = [window.start for window in windows]
        if self.is_away and labels[0] not in self.head:
            return  # it waits for its source
        if labels[0] not in self.head:  # else it is committed, and a takeover records it
            group = Group("web.clicks", tuple(Batch("web.clicks", each, Status.READY, "due") for each in windows))
            owned = ranges_of(self.work, self.table, group)
            yield
            if any(label in self.ledger.skipped for label in labels):
                return  # the claim is refused
            self.ledger.owned |= {label: items[0] for label, items in owned_by_labels(owned).items()}
            yield
            if self.random.random() < 0.1:
                self.failed += 1
                return
            if self.random.random() < 0.1:
                self.held.add(labels[0])
                self.withdrawn.add(labels[0])
                return
            if any(label in self.ledger.skipped for label in labels):
                return
            self.version += 1  # it ends the running ticks
            self.head |= {label: ids_of(owned.get(label, ())) for label in labels}
            for label in labels:
                shown = ids_of(self.opened.get(label, ()))
                self.wrong["not in the batch"] += not shown <= self.head[label]
            yield
        committed = [label for label in sorted(self.head) if label not in self.ledger.done]
        self.ledger.done |= {label: self.head[label] for label in committed}

    def tick(self) -> Actor:
        known, version = dict(self.opened), self.version
        yield
        now, facts = self.now, self.facts()
        yield
        labels = find_open_labels(self.table, START, facts, known.keys(), now)
        made = list(labels.made)
        if self.rule == "a due window is read":
            made = [self.table.cadence.window_of(label) for label in labels.kept] + made
        if self.is_away:
            self.outages += 1
            wanted = {*labels.kept, *(window.start for window in made)}
            by_label = {label: _dicts(known[label]) for label in known if label in wanted}
            kept = find_labels_to_keep(self.work, self.table, made, by_label, START, facts.covered)
            yield
            if self.version == version:
                self.version += 1
                self.opened = {label: known[label] for label in kept}
            return
        ranges = find_open_ranges(self.work, self.table, made, known, START, facts.covered)
        assert ranges is not None
        items_so_far = OpenItems(ranges.owned, ranges.names)
        known = {label: items for label, items in known.items() if items_so_far.can_keep(label, _dicts(items))}
        found = dict(ranges.owned)
        if self.rule == "the newest window gets the records" and made:
            items = next((items for items in found.values() if items), ())
            if not items:
                last = self.ledger.owned_items("", (), ())[1]
                reached = None if last is None else Positions.of_dict(last[1]["positions"])
                new = self.log.next_range(None, reached, START)
                items = (Item("positions 0", START, 0, "", positions=new),) if new else ()
            found = {window.start: () for window in made} | {made[-1].start: items}
        yield
        opened = {label: known[label] for label in labels.kept if label in known and label not in found}
        for label, items in found.items():
            window = self.table.cadence.window_of(label)
            if self.now < self.table.cadence.due_at(window) or self.rule == "a due window is read":
                opened[label] = items
            elif label in known:
                opened[label] = known[label]
        yield
        if self.version == version:
            self.version += 1
            self.opened = opened

    def read(self) -> Actor:
        opened = self.opened
        yield
        facts = self.facts()
        state = SpeedState(0, 0, 1, "", dict.fromkeys(opened, ""))
        labels = choose_open_labels(self.flow, {"web.clicks": state}, LedgerSnapshot({"web.clicks": facts}))
        done = {label: ids for label, ids in self.ledger.done.items() if facts.covered.covers_instant(label)}
        if self.opened != opened:
            return  # it is pinned again
        self._check({**{label: ids_of(opened[label]) for label in labels["web.clicks"]}, **done})

    def _check(self, found: Mapping[datetime, Ids]) -> None:
        self.reads += 1
        times = Counter(id_ for each in found.values() for id_ in each)
        self.wrong["twice"] += any(count > 1 for count in times.values())
        gone = self.withdrawn | self.ledger.skipped
        lost = [id_ for id_, label in self.seen.items() if id_ not in times and label not in gone]
        self.wrong["lost"] += bool(lost)
        labels = {id_: label for label, ids in found.items() for id_ in ids}
        moved = [id_ for id_, label in labels.items() if self.seen.get(id_, label) != label and label not in gone]
        self.wrong["moved"] += any(self.seen[id_] not in gone for id_ in moved)
        self.shown += any(label not in self.ledger.done and ids for label, ids in found.items())
        self.seen = labels


def _dicts(items: Sequence[Item]) -> list[dict[str, Any]]:
    return [{"name": item.name} for item in items]


def live(flow: Flow, seed: int, rule: str = SAFE) -> Life:
    life = Life(flow, Random(seed), rule)
    running: dict[tuple[str, int], Actor] = {}
    for _ in range(STEPS):
        chance = life.random.random()
        if chance < 0.05:
            life.pass_time()
        elif chance < 0.25:
            life.arrive()
        elif chance < 0.27 and not any(kind == "collect" for kind, _ in running):
            life.skip()
        elif chance < 0.28:
            life.is_away = not life.is_away
        kind = life.random.choice(("collect", "tick", "tick", "tick", "read", "read"))
        key = kind, life.random.randrange(2 if kind == "tick" else 1)
        if key not in running:
            running[key] = getattr(life, kind)()
        if life.random.random() < 0.01:
            del running[key]  # it is killed
        elif next(running[key], "ended") == "ended":
            del running[key]
    return life


@pytest.mark.parametrize("part", range(2))
def test_each_record_is_shown_once_in_the_window_that_takes_it(flow: Flow, part: int) -> None:
    lives = [live(flow, seed) for seed in range(part * LIVES, part * LIVES + LIVES)]
    assert [(seed, +life.wrong) for seed, life in enumerate(lives, part * LIVES) if +life.wrong] == []
    assert sum(life.shown for life in lives) > 5 * LIVES
    assert sum(len(life.ledger.done) for life in lives) > 3 * LIVES
    assert any(life.withdrawn for life in lives)
    assert any(life.ledger.skipped for life in lives)
    assert any(life.failed for life in lives)
    assert sum(life.outages for life in lives) > 5 * LIVES


@pytest.mark.parametrize("rule", WRONG)
def test_each_rule_is_needed(flow: Flow, rule: str) -> None:
    assert any(+live(flow, seed, rule).wrong for seed in range(100))
