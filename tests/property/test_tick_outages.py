"""Ticks while sources and queries fail: the other tables go on, views agree, and no table claims to have read more.

Two runners tick. For each of them, two sources and three queries fail at times. Batches run in between, or fail as
well. The decisions are the engine's own functions; sources, ledger and tables are lists. What a table must show
is computed from the raw rows: all that came before the time at which its sources were read, by what is recorded for it.
Each rule that is left out is found to be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.inline_reads import InlineAttempt
from waterclock.batches.ledger_snapshot import LedgerSnapshot, TableFacts
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.continuous import table_reads
from waterclock.engine.continuous.open_labels import find_open_labels, find_windows_to_compute
from waterclock.engine.continuous.table_reads import TableReads, find_checks
from waterclock.engine.query.speed_windows import choose_common_tick, choose_open_labels
from waterclock.flow.declarations import Flow
from waterclock.storage.commit.speed_tables import SpeedState, TableCheck, TickHistory
from waterclock.timelabel.intervals import IntervalSet

A, B, ONE, BOTH, TOP = TABLES = ("web.clicks", "web.users", "web.sums", "web.joined", "web.tops")
COLLECTS, TRANSFORMS = (A, B), (ONE, BOTH, TOP)
INPUTS = {A: (A,), B: (B,), ONE: (B,), BOTH: (A, B), TOP: (ONE,)}
SOURCES = INPUTS | {TOP: (B,)}
START = datetime(2020, 1, 1, tzinfo=UTC)
LENGTH = timedelta(minutes=5)
LIVES, STEPS = 40, 800
SAFE = "as documented"
WRONG = (
    "a failed source counts as read",
    "an overtaken tick counts as read",
    "a table is read as its newest input",
    "a failed source has no rows",
    "joins keep their rows",
    "a failed query has no rows",
    "a failed query counts as read",
    "a tick counts as read before its commit",
)
FLOW = """
CREATE CONNECTION land TYPE files OPTIONS (path 'landing');
COLLECT web.clicks PARTITIONED (id BIGINT) FROM land.clicks EVERY 5 MINUTES START '2020-01-01' BY ARRIVAL TIME
  CONTINUOUS 10 SECONDS;
COLLECT web.users PARTITIONED (id BIGINT) FROM land.users EVERY 5 MINUTES START '2020-01-01' BY ARRIVAL TIME
  CONTINUOUS 10 SECONDS;
TRANSFORM web.sums PARTITIONED CONTINUOUS AS SELECT id FROM web.users;
TRANSFORM web.joined PARTITIONED CONTINUOUS AS SELECT a.id FROM web.clicks AS a FULL JOIN web.users AS b ON a.id = b.id;
TRANSFORM web.tops PARTITIONED CONTINUOUS AS SELECT id FROM web.sums;
"""
Ids = frozenset[str]
Rows = dict[datetime, Ids]
Actor = Generator[None, None, None]


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    root = tmp_path_factory.mktemp("outages")
    (root / "waterclock.toml").write_text('[project]\nname = "outages"\n[env.dev]\nstorage = ".waterclock"\n')
    (root / "flows").mkdir()
    (root / "flows" / "flow.dpl").write_text(FLOW)
    return load_project(Path(root), capabilities=capabilities()).flow


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read sources without threads, which would only wait for each other here."""
    monkeypatch.setattr(table_reads, "Attempt", InlineAttempt)


@dataclass
class Runner:
    """A runner that ticks: the tables that fail there, and what it knows of their outages."""

    seconds: list[float]
    away: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reads: TableReads[Rows] = TableReads(self.said.append, clock=lambda: self.seconds[0])


@dataclass
class Life:
    """One history: the rows of both sources, the done windows, all ticks, and what is recorded of their reads."""

    flow: Flow
    random: Random
    rule: str = SAFE
    now: datetime = START + timedelta(seconds=1)
    sources: dict[str, dict[str, datetime]] = field(default_factory=lambda: {A: {}, B: {}})
    done: dict[str, Rows] = field(default_factory=lambda: {name: {} for name in TABLES})
    states: dict[str, list[SpeedState]] = field(default_factory=lambda: {name: [] for name in TABLES})
    heads: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TABLES, -1))
    slices: dict[str, Ids] = field(default_factory=dict)
    checks: dict[str, TableCheck] = field(default_factory=dict)
    done_at: dict[tuple[str, int], frozenset[tuple[str, datetime]]] = field(default_factory=dict)
    not_computed: set[str] = field(default_factory=set)  # paths of slices that a failed query left as they were
    seen: dict[tuple[str, ...], Ids] = field(default_factory=dict)
    wrong: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    outages: int = 0
    failures: int = 0
    apart: int = 0

    def __post_init__(self) -> None:
        self.seconds = [0.0]
        self.runners = [Runner(self.seconds), Runner(self.seconds)]
        self.batches_away: set[str] = set()

    def facts(self, table: str) -> TableFacts:
        return TableFacts(START, IntervalSet.from_intervals([(label, label + LENGTH) for label in self.done[table]]))

    def pass_time(self) -> None:
        step = self.random.choice((timedelta(seconds=50), timedelta(seconds=50), LENGTH))
        self.now += step
        self.seconds[0] += step.total_seconds()

    def arrive(self) -> None:
        source = self.random.choice(COLLECTS)
        self.sources[source][f"{source[4]}{len(self.sources[source])}"] = self.now

    def change_access(self) -> None:
        away = self.random.choice([*(runner.away for runner in self.runners), self.batches_away])
        away ^= {self.random.choice((*COLLECTS, *TABLES))}

    def rows_of(self, source: str, label: datetime, until: datetime) -> Ids:
        """Return the raw rows of a window that came before an instant."""
        found = self.sources[source].items()
        return frozenset(id_ for id_, at in found if label <= at < min(label + LENGTH, until))

    # the actors

    def batch(self) -> Actor:
        """Make the oldest window of a collect that its runner can reach, or of a transform whose inputs are done."""
        table = self.random.choice(TABLES)
        gap = self.facts(table).covered.first_gap(START, self.flow.tables[A].cadence.floor(self.now))
        if gap is None or table in self.batches_away:
            return
        label = gap[0]
        if table in COLLECTS:
            rows = self.rows_of(table, label, self.now)
        elif all(label in self.done[name] for name in INPUTS[table]):
            rows = frozenset[str]().union(*(self.done[name][label] for name in INPUTS[table]))
        else:
            return
        yield
        for name in TABLES:  # it ends the running ticks
            if name == table or table in INPUTS[name]:
                self.heads[name] += 1
                yield
        self.done[table][label] = rows

    def tick(self, runner: Runner) -> Actor:
        bases = {}
        for name in TABLES:
            bases[name] = replace(self.states[name][-1] if self.states[name] else SpeedState(), head=self.heads[name])
            yield
        now, facts = self.now, {name: self.facts(name) for name in TABLES}
        done = frozenset((name, label) for name in TABLES for label in self.done[name])
        runner.reads.start_tick()
        yield
        rows: dict[str, Rows] = {}
        for name in COLLECTS:
            labels = find_open_labels(self.flow.tables[name], START, facts[name], bases[name].slices.keys(), now)
            known = {label: self.slices[path] for label, path in bases[name].slices.items()}
            wanted = [*labels.kept, *(window.start for window in labels.made)]
            found = runner.reads.read(name, partial(self._read, runner, name, now), now)
            runner.reads.close()
            yield
            kept = {} if found is None and self.rule == "a failed source has no rows" else known
            rows[name] = {label: kept[label] for label in wanted if label in kept}
            if found is not None:
                made = [window.start for window in labels.made if self.now < window.end]
                rows[name] |= {label: found.get(label, frozenset()) for label in made}
        kept_names = set()
        for name in TRANSFORMS:
            inputs = [(self.flow.tables[each].cadence, rows[each].keys()) for each in INPUTS[name]]
            windows = find_windows_to_compute(
                self.flow.tables[name], START, facts[name], bases[name].slices.keys(), now, inputs
            )
            compute = partial(self._compute, runner, name, [window.start for window in windows.made], rows, facts)
            found = runner.reads.read(name, compute, now, is_query=True)
            runner.reads.close()
            yield
            if found is None:
                kept_names.add(name)
                made = [window.start for window in windows.made if window.start in bases[name].slices]
                found = {label: self.slices[bases[name].slices[label]] for label in made}
                found = {} if self.rule == "a failed query has no rows" else found
            rows[name] = found
            if self.rule == "joins keep their rows" and runner.reads.outages.current:
                paths = bases[name].slices
                rows[name] |= {label: self.slices[paths[label]] for label in rows[name] if label in paths}
        self._record(runner, now, is_committed=False)
        number = max(base.tick for base in bases.values()) + 1
        for name in TABLES:
            yield
            if not self._commit(name, rows[name], bases[name], number, done, is_computed=name not in kept_names):
                if self.rule == "an overtaken tick counts as read":
                    break
                return
        runner.reads.end_tick()
        self._record(runner, now)

    def _read(self, runner: Runner, name: str, now: datetime) -> Rows:
        if name in runner.away:
            raise ConnectionError(f"{name} does not answer")
        labels = {self.flow.tables[name].cadence.floor(at) for at in self.sources[name].values()}
        return {label: self.rows_of(name, label, now) for label in labels}

    def _compute(
        self,
        runner: Runner,
        name: str,
        labels: list[datetime],
        rows: Mapping[str, Rows],
        facts: Mapping[str, TableFacts],
    ) -> Rows:
        if name in runner.away:
            raise ZeroDivisionError(name)
        return {label: self._join(name, rows, label, facts) for label in labels}

    def _join(self, name: str, rows: Mapping[str, Rows], label: datetime, facts: Mapping[str, TableFacts]) -> Ids:
        found = frozenset[str]()
        for each in INPUTS[name]:
            is_done = facts[each].covered.covers_instant(label)
            found |= self.done[each][label] if is_done else rows[each].get(label, frozenset())
        return found

    def _record(self, runner: Runner, now: datetime, *, is_committed: bool = True) -> None:
        current = runner.reads.outages.current
        known = {name: self.checks.get(name, TableCheck()) for name in TABLES}
        times = {name: runner.reads.read_time(name) for name in current}
        self.failures += any(name in TRANSFORMS for name in current)
        if self.rule == "a failed query counts as read":
            current = {name: each for name, each in current.items() if name in COLLECTS}
        is_new = is_committed or self.rule == "a tick counts as read before its commit"
        for name, check in find_checks(self.flow, current, times, known, now, is_committed=is_new).items():
            if self.rule == "a failed source counts as read":
                self.checks[name] = TableCheck(now)
            elif self.rule == "a table is read as its newest input" and name == BOTH:
                self.checks[name] = TableCheck(
                    max(self.checks.get(each, TableCheck()).at or START for each in COLLECTS)
                )
            elif check.outages or is_committed:
                self.checks[name] = check

    def _commit(
        self,
        name: str,
        rows: Rows,
        base: SpeedState,
        number: int,
        done: frozenset[tuple[str, datetime]],
        *,
        is_computed: bool,
    ) -> bool:
        if self.heads[name] != base.head:
            return False
        self.heads[name] += 1
        paths = {label: f"{name} {len(self.slices) + at}" for at, label in enumerate(sorted(rows))}
        self.slices |= {path: rows[label] for label, path in paths.items()}
        self.not_computed |= set() if is_computed else {*paths.values()}
        self.states[name].append(SpeedState(self.heads[name], self.heads[name], number, "", paths))
        self.done_at[name, number] = done
        return True

    def read(self) -> Actor:
        """Read all views in one query, or one view."""
        tables = self.random.choice((TABLES, *((name,) for name in TABLES)))
        checks = dict(self.checks)  # first, as what is recorded must be visible by then
        histories = yield from self._pin(tables)
        while True:
            yield
            snapshot = LedgerSnapshot({name: self.facts(name) for name in TABLES})
            pinned, histories = histories, (yield from self._pin(tables))
            if pinned == histories:
                break
        states = choose_common_tick(histories)
        shown = choose_open_labels(self.flow, states, snapshot)
        found: dict[str, Rows] = {}
        for name in tables:
            yield
            covered = snapshot.of(name).covered
            found[name] = {label: ids for label, ids in self.done[name].items() if covered.covers_instant(label)}
            found[name] |= {label: self.slices[states[name].slices[label]] for label in shown[name]}
        self._check(found, states, checks if len(tables) == 1 else {})

    def _pin(self, tables: tuple[str, ...]) -> Generator[None, None, dict[str, TickHistory]]:
        histories = {}
        for name in sorted(tables, key=self.flow.order.index, reverse=True):
            yield
            histories[name] = TickHistory(tuple(reversed(self.states[name][-20:])), len(self.states[name]) < 20)
        return histories

    def _check(
        self, found: dict[str, Rows], states: Mapping[str, SpeedState], checks: Mapping[str, TableCheck]
    ) -> None:
        self.reads += 1
        for name, rows in found.items():
            counts = Counter(id_ for ids in rows.values() for id_ in ids)
            self.wrong["twice"] += any(count > 1 for count in counts.values())
            key = (*found, name)
            self.wrong["lost"] += not self.seen.get(key, frozenset()) <= counts.keys()
            self.seen[key] = frozenset(counts)
            at = checks[name].at if name in checks else None
            newest = None if at is None else self.flow.tables[A].cadence.floor(at)
            # the last rows of a window that is over are shown once its batch is done
            if at is not None and newest is not None and self.now < newest + LENGTH:
                raw = frozenset[str]().union(*(self.rows_of(each, newest, at) for each in SOURCES[name]))
                self.wrong["claimed"] += not raw <= counts.keys()
        for name in TRANSFORMS if len(found) == len(TABLES) else ():
            for label, ids in found[name].items():
                is_computed = states[name].slices.get(label) not in self.not_computed
                if is_computed and not any(
                    label in found[each] and self._is_done_since(each, label, states) for each in (name, *INPUTS[name])
                ):
                    inputs = frozenset[str]().union(*(found[each].get(label, frozenset()) for each in INPUTS[name]))
                    self.wrong["disagree"] += ids != inputs

    def _is_done_since(self, name: str, label: datetime, states: Mapping[str, SpeedState]) -> bool:
        """Return whether a window without rows at the tick of a query was done after it: the next tick has its rows."""
        state = states[name]
        return label not in state.slices and (name, label) not in self.done_at.get((name, state.tick), frozenset())


def live(flow: Flow, seed: int, rule: str = SAFE) -> Life:
    life = Life(flow, Random(seed), rule)
    running: dict[tuple[str, int], Actor] = {}
    for _ in range(STEPS):
        chance = life.random.random()
        if chance < 0.03:
            life.pass_time()
        elif chance < 0.12:
            life.arrive()
        elif chance < 0.135:
            life.change_access()
        kind = life.random.choice(("batch", "tick", "tick", "tick", "read", "read"))
        number = life.random.randrange(2) if kind == "tick" else 0
        if (kind, number) not in running:
            running[kind, number] = life.tick(life.runners[number]) if kind == "tick" else getattr(life, kind)()
        if kind != "read" and life.random.random() < 0.005:
            del running[kind, number]  # killed
            if kind == "tick":
                life.runners[number] = Runner(life.seconds, life.runners[number].away)
        elif next(running[kind, number], "ended") == "ended":
            del running[kind, number]
        life.outages += any(runner.reads.outages.current for runner in life.runners)
        times = [life.checks[name].at for name in COLLECTS if name in life.checks]
        life.apart += len(set(times)) > 1
    return life


@pytest.mark.parametrize("part", range(2))
def test_sources_and_queries_that_fail_delay_their_own_tables_only(flow: Flow, part: int) -> None:
    lives = [live(flow, seed) for seed in range(part * LIVES, part * LIVES + LIVES)]
    assert [(seed, +life.wrong) for seed, life in enumerate(lives, part * LIVES) if +life.wrong] == []
    assert sum(life.reads for life in lives) > 5 * LIVES
    assert sum(life.outages > 0 for life in lives) > LIVES / 2
    assert sum(life.failures > 0 for life in lives) > LIVES / 2
    assert sum(life.apart > 0 for life in lives) > LIVES / 3  # one table is behind the other
    assert all(any(life.seen.values()) for life in lives)


@pytest.mark.parametrize("rule", WRONG)
def test_each_rule_is_needed(flow: Flow, rule: str) -> None:
    assert any(+live(flow, seed, rule).wrong for seed in range(200))
