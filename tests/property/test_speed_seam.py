"""Views over open and done windows: with any interleaving of readers, ticks and batches, each row stays visible once.

The actors stop at each step, in random order, and crash. Their decisions are made by the engine's own functions; the
sources, the ledger and the tables are lists. Each rule that the documentation calls necessary is left out once, and
each of these variants is found to be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from waterclock.batches.ledger_snapshot import BatchStatus, FailedBatch, LedgerSnapshot, TableFacts
from waterclock.connectors.interface import Item
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.collect.arrivals import assign_items
from waterclock.engine.continuous.open_labels import find_open_labels, find_windows_to_compute
from waterclock.engine.query.speed_windows import choose_common_tick, choose_open_labels
from waterclock.flow.declarations import Flow
from waterclock.storage.commit.speed_tables import SpeedState, TickHistory
from waterclock.timelabel.intervals import IntervalSet

C, T = "web.clicks", "web.sums"
START = datetime(2020, 1, 1, tzinfo=UTC)
LENGTH = timedelta(minutes=5)
STEP = timedelta(seconds=50)
LIVES, STEPS = 60, 700
SAFE = "as documented"
WRONG = {
    "ledger before open windows": 0,
    "no compare-and-swap": 0,
    "running ticks go on": 1900,
    "source after the window": 0,
    "no common tick": 0,
    "pinned once": 0,
    "labels that are not recorded": 0,
}
"""Each rule that is left out, with the first seed of the lives in which this is noticed."""
FLOW = """
CREATE CONNECTION land TYPE files OPTIONS (path 'landing');
COLLECT web.clicks PARTITIONED (id BIGINT) FROM land.clicks EVERY 5 MINUTES START '2020-01-01' BY ARRIVAL TIME
  CONTINUOUS 10 SECONDS;
TRANSFORM web.sums PARTITIONED CONTINUOUS AS SELECT count(*) AS n FROM web.clicks;
"""
Rows = dict[datetime, frozenset[int]]
Actor = Generator[None, None, None]


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    root = tmp_path_factory.mktemp("seam")
    (root / "waterclock.toml").write_text('[project]\nname = "seam"\n[env.dev]\nstorage = ".waterclock"\n')
    (root / "flows").mkdir()
    (root / "flows" / "flow.dpl").write_text(FLOW)
    return load_project(Path(root), capabilities=capabilities()).flow


@dataclass
class Life:
    """One history: arrived items, done windows, and all committed states of open windows."""

    flow: Flow
    random: Random
    rule: str = SAFE
    now: datetime = START + timedelta(seconds=1)
    items: list[Item] = field(default_factory=list)
    done: dict[str, Rows] = field(default_factory=lambda: {C: {}, T: {}})
    head: dict[str, Rows] = field(default_factory=lambda: {C: {}, T: {}})
    held: set[datetime] = field(default_factory=set)
    states: dict[str, list[SpeedState]] = field(default_factory=lambda: {C: [], T: []})
    versions: dict[str, int] = field(default_factory=lambda: {C: -1, T: -1})
    slices: dict[str, frozenset[int]] = field(default_factory=dict)
    seen: dict[tuple[str, ...], dict[int, datetime]] = field(default_factory=dict)
    wrong: Counter[str] = field(default_factory=Counter)
    reads: int = 0

    def facts(self, table: str) -> TableFacts:
        covered = IntervalSet.from_intervals([(label, label + LENGTH) for label in self.done[table]])
        held = self.held if table == T else ()
        troubles = {label: FailedBatch(BatchStatus.HELD, 1, 1, "", is_transient=False) for label in held}
        return TableFacts(START, covered, troubles)

    def taken(self) -> set[int]:
        return {id_ for ids in self.done[C].values() for id_ in ids}

    def listed(self, labels: list[datetime], facts: TableFacts, now: datetime) -> Rows:
        """List the source, and assign the items that no batch took to the labels, as a collect by arrival does."""
        windows = [self.flow.tables[C].cadence.window_of(label) for label in labels]
        free = [item for item in self.items if int(item.name) not in self.taken() and item.stamp < now]
        older = [] if not windows else [facts.covered.first_gap(START, windows[0].start)]
        others = [self.flow.tables[C].cadence.window_of(gap[0]) for gap in older if gap is not None]
        found = assign_items(free, windows, facts.covered, others_open=others)
        return {label: frozenset(int(item.name) for item in items) for label, items in found.items()}

    # the actors

    def pass_time(self) -> None:
        self.now += self.random.choice((STEP, STEP, timedelta(seconds=1), LENGTH))

    def arrive(self) -> None:
        late = self.random.choice((0, 0, 0, 100, 400))
        stamp = max(START, self.now - timedelta(seconds=late + self.random.randrange(2)))
        self.items.append(Item(str(len(self.items)), stamp, 1, ""))

    def collect(self) -> Actor:
        gap = self.facts(C).covered.first_gap(START, self.flow.tables[C].cadence.floor(self.now))
        if gap is None:
            return
        label = gap[0]
        if label not in self.head[C]:  # else it is committed, and a takeover records it
            rows = self.listed([label], self.facts(C), self.now)[label]
            yield
            for table in (C, T):
                self.end_ticks(table)
                yield
            self.head[C].setdefault(label, rows)
        yield
        self.done[C][label] = self.head[C][label]

    def transform(self) -> Actor:
        ready = [label for label in self.done[C] if label not in self.done[T] and label not in self.held]
        if not ready:
            return
        label = self.random.choice(ready)  # out of order
        if label not in self.head[T]:
            yield
            if self.random.random() < 0.1:
                self.held.add(label)
                return
            self.end_ticks(T)
            yield
            self.head[T][label] = self.done[C][label]
        yield
        self.done[T][label] = self.head[T][label]

    def end_ticks(self, table: str) -> None:
        self.versions[table] += self.rule != "running ticks go on"

    def tick(self) -> Actor:
        bases = {}
        for table in (C, T):
            newest = self.states[table][-1] if self.states[table] else SpeedState()
            bases[table] = replace(newest, head=self.versions[table])
            yield
        now, facts = self.now, {table: self.facts(table) for table in (C, T)}
        yield
        collect, transform = self.flow.tables[C], self.flow.tables[T]
        labels = find_open_labels(collect, START, facts[C], bases[C].slices.keys(), now)
        made = [window.start for window in labels.made]
        if self.rule == "source after the window":
            made = sorted({*made, *labels.kept})
        found = self.listed(made, facts[C], now)
        yield
        if self.rule != "source after the window":
            found = {label: ids for label, ids in found.items() if self.now < label + LENGTH}
        opened = {label: self.slices[path] for label, path in bases[C].slices.items() if label in {*labels.kept, *made}}
        opened |= {label: ids for label, ids in found.items() if ids or label in opened}
        own = find_windows_to_compute(
            transform, START, facts[T], bases[T].slices.keys(), now, [(collect.cadence, opened.keys())]
        )
        sums: Rows = {}
        for window in own.made:
            sums[window.start] = opened.get(window.start, self.done[C].get(window.start, frozenset()))
        number = max(base.tick for base in bases.values()) + 1
        for table, rows in ((C, opened), (T, sums)):
            yield
            if not self._commit(table, rows, bases[table], number):
                return

    def _commit(self, table: str, rows: Rows, base: SpeedState, number: int) -> bool:
        version = self.versions[table]
        if version != base.head and self.rule != "no compare-and-swap":
            return False
        self.versions[table] += 1
        paths = {label: f"{table} {len(self.slices)} {label}" for label in sorted(rows)}
        self.slices |= {path: rows[label] for label, path in paths.items()}
        self.states[table].append(SpeedState(version + 1, version + 1, number, "", paths))
        return True

    def read(self) -> Actor:
        """Read one view, or both in one query: no row may be visible twice, or vanish once it was visible."""
        tables = self.random.choice(((C,), (T,), (C, T), (T, C)))
        early = self._snapshot() if self.rule == "ledger before open windows" else None
        histories = yield from self.pin(tables)
        while True:
            yield
            snapshot = early or self._snapshot()
            pinned, histories = histories, (yield from self.pin(tables))
            if pinned == histories or self.rule == "pinned once":
                histories = pinned
                break
        if self.rule == "no common tick":
            states = {name: it.states[0] if it.states else SpeedState() for name, it in histories.items()}
        else:
            states = choose_common_tick(histories)
        shown = choose_open_labels(self.flow, states, snapshot)
        found: dict[str, dict[datetime, frozenset[int]]] = {}
        for table in tables:
            yield
            opened = {label: self.slices[states[table].slices[label]] for label in shown[table]}
            done = snapshot.of(table).covered
            if self.rule == "labels that are not recorded":
                done = IntervalSet.from_intervals([(START, self.now)])
            found[table] = {
                label: ids for label, ids in self.head[table].items() if done.covers_instant(label)
            } | opened
        self._check(found)

    def pin(self, tables: tuple[str, ...]) -> Generator[None, None, dict[str, TickHistory]]:
        histories = {}
        for table in sorted(tables, key=self.flow.order.index, reverse=True):
            yield
            histories[table] = TickHistory(tuple(reversed(self.states[table][-20:])), len(self.states[table]) < 20)
        return histories

    def _snapshot(self) -> LedgerSnapshot:
        return LedgerSnapshot({table: self.facts(table) for table in (C, T)})

    def _check(self, found: dict[str, Rows]) -> None:
        self.reads += 1
        for table, rows in found.items():
            query = (*sorted(found), table)
            ids = Counter(id_ for each in rows.values() for id_ in each)
            self.wrong["twice"] += any(count > 1 for count in ids.values())
            seen = self.seen.get(query, {})
            lost = [id_ for id_, label in seen.items() if id_ not in ids and (table == C or label not in self.held)]
            self.wrong["lost"] += bool(lost)
            self.seen[query] = {id_: label for label, each in rows.items() for id_ in each}
        if len(found) == 2:
            self.wrong["disagree"] += any(ids != found[C].get(label) for label, ids in found[T].items())


def live(flow: Flow, seed: int, rule: str = SAFE) -> Life:
    life = Life(flow, Random(seed), rule)
    kinds = {"collect": 1, "transform": 1, "tick": 2, "read": 1}  # two runners tick, one reader continues to read
    running: dict[tuple[str, int], Actor] = {}
    stopped: dict[tuple[str, int], int] = {}
    for step in range(STEPS):
        chance = life.random.random()
        if chance < 0.04:
            life.pass_time()
        elif chance < 0.1:
            life.arrive()
        kind = life.random.choice(("collect", "transform", "tick", "tick", "tick", "tick", "read", "read"))
        key = kind, life.random.randrange(kinds[kind])
        if stopped.get(key, 0) > step:
            continue  # stopped, as by SIGSTOP
        if life.random.random() < 0.01:
            stopped[key] = step + 200
        if key not in running:
            running[key] = getattr(life, kind)()
        if kind != "read" and life.random.random() < 0.01:
            del running[key]  # killed
        elif next(_ended(running[key]), True):
            del running[key]
    return life


def _ended(actor: Actor) -> Iterator[bool]:
    for _ in actor:
        yield False
        return


@pytest.mark.parametrize("part", range(4))
def test_every_row_is_shown_once_and_stays(flow: Flow, part: int) -> None:
    lives = [live(flow, seed) for seed in range(part * LIVES, part * LIVES + LIVES)]
    assert [(seed, +life.wrong) for seed, life in enumerate(lives, part * LIVES) if +life.wrong] == []
    assert sum(life.reads for life in lives) > 10 * LIVES
    assert all(any(life.seen.values()) for life in lives)
    assert sum(len(life.states[T]) for life in lives) > 2 * LIVES
    assert any(life.held for life in lives)


@pytest.mark.parametrize("rule", WRONG)
def test_each_rule_is_needed(flow: Flow, rule: str) -> None:
    assert any(+live(flow, WRONG[rule] + seed, rule).wrong for seed in range(300))
