"""The cost of planning does not grow with the number of done batches; a plan's duration is estimated from the past."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.counting import calls_of
from tests.model.flows import at, collect, flow, history, replace_transform, transform
from tests.unit.planner.pasts import done, past
from waterclock.batches.ledger_snapshot import LedgerSnapshot, TableFacts
from waterclock.flow.enums import Mode
from waterclock.planner.estimate import TableCost, estimate
from waterclock.planner.planning import Planner, plan
from waterclock.planner.request import PlanRequest
from waterclock.timelabel.intervals import IntervalSet

NOW = at("2016-01-01 00:01")


def cost_of_nothing_due(count: int) -> int:
    tables = [collect("t0", "HOUR")]
    for number in range(1, count):
        above = tables[number // 2].name
        made = (
            transform(f"t{number}", [above], "HOUR") if number % 3 else replace_transform(f"t{number}", [above], "HOUR")
        )
        tables.append(made)
    planner = Planner(flow(*tables))
    ledger = LedgerSnapshot({t.name: done(("2013-01-01", "2016-01-01")) for t in tables})
    found, calls = calls_of(lambda: planner.plan(ledger, NOW))
    assert found.batches == ()
    return calls


def test_planning_where_nothing_is_due_costs_the_same_for_each_table() -> None:
    of_many = cost_of_nothing_due(1000)
    assert of_many < 2.1 * cost_of_nothing_due(500)
    assert of_many < 80_000  # calls; 53,000 were counted


@pytest.mark.parametrize("cap", [10, 1000])
def test_a_thousand_gaps_cost_the_gaps_alone_however_long_the_history_is(cap: int) -> None:
    def cost(apart: int) -> int:
        start, step = at("2013-01-01"), timedelta(minutes=5)
        gaps = IntervalSet.from_intervals(
            (start + apart * n * step, start + (apart * n + 1) * step) for n in range(1000)
        )
        covered = IntervalSet.from_intervals([(start, NOW)]) - gaps
        ledger = past(a=TableFacts(covered=covered), b=TableFacts(covered=covered))
        planner = Planner(flow(collect("a", "5 MINUTES"), transform("b", ["a"], "5 MINUTES")))
        found, calls = calls_of(lambda: planner.plan(ledger, NOW, PlanRequest(cap=cap)))
        assert sum(found.left_out.values()) + len(found.batches) == 2000
        assert len(found.batches) == 2 * cap
        return calls

    of_years = cost(apart=300)
    assert of_years < 1.05 * cost(apart=30)
    assert of_years < 60_000 + 180 * cap  # calls; 49,000 and 120 for each label of a table were counted


def test_finding_ready_batches_in_a_backlog_of_years_does_not_evaluate_all_of_them() -> None:
    tables = [collect("a", "5 MINUTES", is_partitioned=False, mode=Mode.MERGE)]
    tables += [transform("b", ["a"], "5 MINUTES"), transform("c", [history("b")], "5 MINUTES")]
    planner = Planner(flow(*tables))

    def cost(now: datetime) -> int:
        groups, calls = calls_of(lambda: planner.ready(LedgerSnapshot(), now))
        assert [(group.table, len(group.batches)) for group in groups] == [("a", 1)]
        return calls

    of_years = cost(NOW)
    assert of_years < 1.05 * cost(at("2013-01-08"))
    assert of_years < 500  # calls; 328 were counted


def test_the_cost_of_a_plan_is_estimated_from_past_batches() -> None:
    ledger = past(a=TableFacts(seconds_per_batch=2.0))
    tables = flow(collect("a"), transform("b", ["a"]))
    found = estimate(plan(tables, ledger, at("2013-01-08"), PlanRequest(cap=3)), ledger)
    assert found.tables == {"a": TableCost(7, 14.0), "b": TableCost(7, None)}
    assert (found.batches, found.seconds, found.unknown) == (14, 14.0, ("b",))
    assert found.to_dict()["tables"]["b"] == {"batches": 7, "seconds": None}
