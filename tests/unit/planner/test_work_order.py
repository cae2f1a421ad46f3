"""The order of work: new windows before backfills and restatements, and no table waits forever."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tests.model.flows import at, collect, flow, merge_transform, publish, transform
from tests.unit.planner.pasts import done, past
from waterclock.batches.ledger_snapshot import InputFact, LedgerSnapshot, TableFacts
from waterclock.flow.declarations import Table
from waterclock.planner.plan import Batch, Group, Status
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.planner.work_order import FRESH_IN_A_ROW, WorkOrder
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window

NOW = at("2013-01-20 03:00")
HOUR = timedelta(hours=1)
A = collect("a")
B = transform("b", ["a"])


def group(table: str, number: int, *, is_fresh: bool) -> Group:
    window = Window(at("2013-01-01") + number * HOUR, at("2013-01-01") + (number + 1) * HOUR)
    return Group(table, (Batch(table, window, Status.READY, "due"),), is_fresh)


def started(order: WorkOrder, ready: list[Group], count: int) -> list[str]:
    """Start the first ready group repeatedly, and return the names of the tables."""
    names = []
    for _ in range(count):
        first = order.sort(ready)[0]
        order.start(first)
        ready.remove(first)
        names.append(first.table)
    return names


class TestFreshGroups:
    def fresh(
        self, ledger: LedgerSnapshot, *tables: Table, request: PlanRequest | None = None
    ) -> dict[str, list[bool]]:
        found = Planner(flow(*tables)).plan(ledger, NOW, request or PlanRequest(group_cap=1)).groups
        by_table: dict[str, list[bool]] = defaultdict(list)
        for each in sorted(found, key=lambda one: one.batches[0].label):
            by_table[each.table].append(each.is_fresh)
        return dict(by_table)

    def test_the_newest_seven_windows_are_fresh(self) -> None:
        assert self.fresh(past(a=done(("2013-01-01", "2013-01-11"))), A) == {"a": [False] * 2 + [True] * 7}

    def test_windows_of_the_last_day_are_fresh_however_many(self) -> None:
        hourly = collect("a", "HOUR")
        fresh = self.fresh(past(a=done(("2013-01-01", "2013-01-18 22:00"))), hourly)
        assert fresh == {"a": [False] * 5 + [True] * 24}

    def test_a_claim_of_many_labels_is_fresh_by_its_newest(self) -> None:
        request = PlanRequest(group_cap=10)
        assert self.fresh(past(), A, request=request) == {"a": [False, True]}

    def test_backfills_and_restatements_are_not(self) -> None:
        spans = ("2013-01-01", "2013-01-18")
        ledger = past(a=done(spans, requested={at("2013-01-17"): "recompute"}, wanted=frozenset({at("2013-01-19")})))
        assert self.fresh(ledger, A) == {"a": [False, True, False]}
        forced = PlanRequest(group_cap=1, force={"a": frozenset({at("2013-01-18")})})
        assert self.fresh(past(a=done(spans)), A, request=forced) == {"a": [False, True]}

    def test_they_go_first_in_a_plan(self) -> None:
        ledger = past(a=done(("2013-01-01", "2013-01-19"), requested={at("2013-01-05"): "recompute"}), b=done())
        groups = Planner(flow(A, B)).plan(ledger, NOW, PlanRequest(group_cap=1)).groups
        assert [(each.table, each.is_fresh) for each in groups][:2] == [("b", True)] * 2
        assert [each.is_fresh for each in groups] == sorted((each.is_fresh for each in groups), reverse=True)


class TestOneClaimAtATime:
    def test_a_new_window_precedes_restated_labels(self) -> None:
        asked = dict.fromkeys((at("2013-01-02"), at("2013-01-03")), "recompute")
        ledger = past(a=done(("2013-01-01", "2013-01-20")), m=done(("2013-01-01", "2013-01-19"), requested=asked))
        [found] = Planner(flow(A, merge_transform("m", ["a"]))).plan(ledger, NOW).groups
        assert (found.batches[0].label, found.is_fresh) == (at("2013-01-19"), True)

    def test_a_late_table_continues_with_its_oldest_label(self) -> None:
        asked = {at("2013-01-02"): "recompute"}
        ledger = past(a=done(("2013-01-01", "2013-01-20")), m=done(("2013-01-01", "2013-01-05"), requested=asked))
        [found] = Planner(flow(A, merge_transform("m", ["a"]))).plan(ledger, NOW).groups
        assert (found.batches[0].label, found.is_fresh) == (at("2013-01-02"), False)

    def test_labels_that_are_delivered_again_go_before_new_ones(self) -> None:
        """If a destination lost them, no new label can be delivered (E824)."""
        asked = {at("2013-01-02"): "recompute"}
        made = {"a": done(("2013-01-01", "2013-01-20")), "out": done(("2013-01-01", "2013-01-19"), requested=asked)}
        [found] = Planner(flow(A, publish("out", A))).plan(past(**made), NOW).groups
        assert (found.batches[0].label, found.is_fresh) == (at("2013-01-02"), False)


def test_new_windows_are_found_behind_more_ready_labels_than_the_plan_may_contain() -> None:
    ledger = past(a=done(("2013-01-19", "2013-01-19")))
    found = Planner(flow(collect("a", start=at("2012-01-01")))).plan(ledger, NOW, PlanRequest(cap=10)).groups
    assert [(each.is_fresh, each.batches[0].label, len(each.batches)) for each in found] == [
        (True, at("2013-01-13"), 7), (False, at("2012-01-01"), 3)
    ]  # fmt: skip


class TestTurns:
    def test_one_other_group_follows_three_fresh_ones(self) -> None:
        ready = [group("new", n, is_fresh=True) for n in range(8)] + [group("old", n, is_fresh=False) for n in range(2)]
        assert started(WorkOrder(), ready, 10) == ["new"] * 3 + ["old"] + ["new"] * 3 + ["old"] + ["new"] * 2

    def test_tables_take_turns(self) -> None:
        ready = [group("x", n, is_fresh=False) for n in range(5)] + [group(name, 9, is_fresh=False) for name in "yz"]
        assert started(WorkOrder(), ready, 7) == ["x", "y", "z", "x", "x", "x", "x"]

    def test_a_table_that_becomes_ready_later_is_first_once(self) -> None:
        order, ready = WorkOrder(), [group("x", n, is_fresh=False) for n in range(5)]
        assert started(order, ready, 2) == ["x", "x"]
        ready += [group("y", 20 + n, is_fresh=False) for n in range(2)]
        assert started(order, ready, 5) == ["y", "x", "y", "x", "x"]


class TestNewestFirst:
    REQUEST = PlanRequest(newest_first=True)

    def test_the_newest_labels_are_in_the_first_claim_oldest_first(self) -> None:
        ledger = past(a=done(), b=done())
        planner = Planner(flow(collect("a", start=at("2012-11-01"))))
        first, *others = planner.plan(ledger, NOW, self.REQUEST).groups
        assert [f"{batch.label:%m-%d}" for batch in first.batches] == [
            f"{at('2012-12-20') + n * 24 * HOUR:%m-%d}" for n in range(31)
        ]
        ends = [each.batches[-1].label for each in (first, *others)]
        assert ends == sorted(ends, reverse=True)
        assert planner.ready(ledger, NOW, self.REQUEST) == (first, *others)

    def test_a_table_in_the_order_of_labels_keeps_its_order(self) -> None:
        ledger = past(a=done(("2013-01-01", "2013-01-20")))
        [found] = Planner(flow(A, merge_transform("m", ["a"]))).plan(ledger, NOW, self.REQUEST).groups
        assert [each.label for each in found.batches] == [at("2013-01-01")]

    def test_readers_of_the_newest_labels_go_before_older_inputs(self) -> None:
        ledger = past(a=done(("2013-01-18", "2013-01-20")))
        groups = Planner(flow(A, B)).plan(ledger, NOW, self.REQUEST).groups
        assert [each.table for each in groups] == ["b", "a"]


CHAINS, DEPTH = 250, 4  # a thousand tables: a collect and three tables below it
RESTATED, BACKFILLED = 20, 20  # chains whose past is restated, and chains with three missing weeks
SLOTS = 100  # groups that run at the same time, and end together
BEGIN = at("2013-01-10")
OLDEST = at("2012-12-20")
ASKED = PlanRequest(group_cap=24, cap=100)


@dataclass
class World:
    """Simulates tables and their facts without a ledger database; each step makes groups and advances the time."""

    planner: Planner
    facts: dict[str, TableFacts]
    now: datetime
    order: WorkOrder = field(default_factory=WorkOrder)
    log: list[Group] = field(default_factory=list)
    waits: Counter[str] = field(default_factory=Counter)
    longest_wait: int = 0

    def step(self) -> tuple[int, int]:
        """Make the first groups of the order; return how many fresh and other groups were ready."""
        ready = list(self.planner.ready(LedgerSnapshot(self.facts), self.now, ASKED))
        fresh = sum(each.is_fresh for each in ready)
        others = {each.table for each in ready if not each.is_fresh}
        for _ in range(min(SLOTS, len(ready))):
            first = self.order.sort(ready)[0]
            self.order.start(first)
            ready.remove(first)
            self.log.append(first)
            self._make(first)
            if not first.is_fresh:
                self.waits.update(others - {first.table})
                self.longest_wait = max(self.longest_wait, self.waits[first.table])
                self.waits[first.table] = 0
        return fresh, len(others)

    def _make(self, made: Group) -> None:
        """Record labels as done; labels that were done before get other rows, so their readers become stale."""
        name, labels = made.table, {batch.label for batch in made.batches}
        known = self.facts[name]
        self.facts[name] = replace(
            known,
            covered=known.covered | IntervalSet.from_intervals((label, label + HOUR) for label in labels),
            requested={label: verb for label, verb in known.requested.items() if label not in labels},
            suspects={label: read for label, read in known.suspects.items() if label not in labels},
        )
        for reader, _ in self.planner.graph.nodes[name].readers:
            of = self.facts[reader]
            changed = {
                label: tuple(replace(fact, current="2") for fact in read) if label in labels else read
                for label, read in of.suspects.items()
            }
            self.facts[reader] = replace(of, suspects=changed)


def world() -> World:
    tables, facts, hours = [], {}, [BEGIN + n * HOUR for n in range(36)]
    for chain in range(CHAINS):
        is_backfilled = RESTATED <= chain < RESTATED + BACKFILLED
        begin = OLDEST if is_backfilled else BEGIN
        names = [f"t{chain:03}_{depth}" for depth in range(DEPTH)]
        tables.append(collect(names[0], "HOUR", start=begin))
        for depth in range(1, DEPTH):
            make = merge_transform if depth == DEPTH - 1 and not is_backfilled else transform
            tables.append(make(names[depth], [names[depth - 1]], "HOUR"))
        for depth, name in enumerate(names):
            facts[name] = TableFacts(covered=IntervalSet.from_intervals([(BEGIN, at("2013-01-20"))]))
            if chain < RESTATED and depth == 0:
                facts[name] = replace(facts[name], requested=dict.fromkeys(hours, "recompute"))
            elif chain < RESTATED:
                read = {hour: (InputFact(names[depth - 1], hour, hour + HOUR, "1", "1"),) for hour in hours}
                facts[name] = replace(facts[name], suspects=read)
    return World(Planner(flow(*tables)), facts, at("2013-01-20"))


def test_a_thousand_tables_stay_fresh_while_backfills_and_restatements_end() -> None:
    found = world()
    assert len(found.planner.graph.nodes) == 1000
    for hour in (1, 2):
        found.now = at("2013-01-20") + hour * HOUR
        begun = len(found.log)
        while found.step()[0]:
            pass
        fresh = [place for place, each in enumerate(found.log[begun:], 1) if each.is_fresh]
        assert len(fresh) == CHAINS * DEPTH, "the new window of each table was made"
        # one other group for each three fresh ones, and those that filled the slots of a step with too few fresh ones
        assert fresh[-1] <= CHAINS * DEPTH * (FRESH_IN_A_ROW + 1) // FRESH_IN_A_ROW + DEPTH * SLOTS
    while found.step() != (0, 0):
        pass
    assert not any(facts.requested or facts.suspects for facts in found.facts.values())
    assert {low for facts in found.facts.values() for low, _ in facts.covered} == {OLDEST, BEGIN}
    others = {each.table for each in found.log if not each.is_fresh}
    assert len(others) == (RESTATED + BACKFILLED) * DEPTH
    assert found.longest_wait <= len(others), "each table has a turn before another one has its second"


def test_others_go_on_where_new_windows_alone_would_fill_all_slots() -> None:
    """With more new windows than slots, backfills and restatements still get every fourth start."""
    found = world()
    found.now = at("2013-01-20") + 3 * HOUR
    for _ in range(4):
        assert found.step()[0] > SLOTS
    assert len(found.log) == 4 * SLOTS
    assert sum(not each.is_fresh for each in found.log) == len(found.log) // (FRESH_IN_A_ROW + 1)
