"""A table with a refused declaration stops itself and its readers, and nothing else."""

from __future__ import annotations

from tests.model.flows import at, collect, flow, transform
from tests.unit.planner.pasts import done, failed, past, reason, running, states
from waterclock.errors import WaterclockError
from waterclock.operations.blocking_batches import blockers
from waterclock.operations.retrying import find_blocked_batches
from waterclock.operations.wait_chain import find_wait_chain
from waterclock.planner.plan import Status
from waterclock.planner.planning import Planner, plan

NOW = at("2013-01-05 03:00")
A, B = collect("a"), collect("b")
ERROR = WaterclockError(
    "E405", "a has changed, and its batches follow the former declaration", why="mode was append, is now merge"
)
SAID = "E405 a has changed, and its batches follow the former declaration"


def test_its_batches_and_those_of_its_readers_are_blocked_and_all_others_are_ready() -> None:
    reads, further, other = transform("c", ["a", "b"]), transform("d", ["c"]), transform("e", ["b"])
    tables = flow(A, B, reads, further, other)
    ledger = past(a=done(("2013-01-01", "2013-01-03"), refused=ERROR), b=done(("2013-01-01", "2013-01-05")))
    found = plan(tables, ledger, NOW)
    assert Planner(tables).ready(ledger, NOW) == found.groups
    assert set(states(found, "a").values()) == {"blocked"}
    assert set(states(found, "c").values()) == {"blocked"}
    assert set(states(found, "d").values()) == {"blocked"}
    assert {group.table for group in found.groups} == {"e"}
    assert reason(found, "a", "2013-01-03") == SAID
    assert reason(found, "c", "2013-01-01") == reason(found, "d", "2013-01-01") == f"blocked by a: {SAID}"
    assert found.refused == {"a": ERROR}
    assert found.to_dict()["refused"]["a"]["code"] == "E405"
    assert {cause[0] for cause in blockers(found.batches)} == {"a"}
    assert find_blocked_batches(found, {"b": [at("2013-01-01")]}) == {}
    assert find_wait_chain(found, "d", at("2013-01-04"))[-1].status is Status.BLOCKED


def test_a_batch_that_runs_is_running_and_one_that_failed_is_not_tried_again() -> None:
    troubles = {at("2013-01-03"): failed(again=at("2013-01-04"))}
    ledger = past(
        a=done(("2013-01-01", "2013-01-03"), refused=ERROR, troubles=troubles, open_claims=(running("2013-01-04"),))
    )
    assert states(plan(flow(A), ledger, NOW), "a") == {"01-03": "blocked", "01-04": "running"}


def test_a_reader_that_is_done_stays_done() -> None:
    reads = transform("c", ["a"])
    ledger = past(a=done(("2013-01-01", "2013-01-05"), refused=ERROR), c=done(("2013-01-01", "2013-01-05")))
    found = plan(flow(A, reads), ledger, NOW)
    assert found.batches == ()
    assert found.refused == {"a": ERROR}
