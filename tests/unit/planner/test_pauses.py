"""A plan with paused tables: none of their batches is offered, and explanations lead to the pause."""

from __future__ import annotations

from dataclasses import replace

from tests.model.flows import at, collect, flow, transform
from tests.unit.planner.pasts import done, failed, past, reason, running, states
from waterclock.batches.ledger_snapshot import LedgerSnapshot, Pause
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Mode
from waterclock.operations.display_states import State, display_state_of
from waterclock.operations.freshness import freshness
from waterclock.operations.wait_chain import find_wait_chain
from waterclock.planner.plan import Plan, Status
from waterclock.planner.planning import Planner, plan

NOW = at("2013-01-05 03:00")
A = collect("a")
B = transform("b", ["a"])
PAUSE = Pause(at("2013-01-04 22:00"), "ann", "the source lies")
SAID = "paused by ann since 2013-01-04 22:00 +00:00: the source lies"


def planned(tables: Flow, ledger: LedgerSnapshot) -> Plan:
    """Return the plan; assert that the shortcut to the groups gives the same groups."""
    found = plan(tables, ledger, NOW)
    assert Planner(tables).ready(ledger, NOW) == found.groups
    return found


def test_nothing_of_a_paused_table_is_offered_and_its_readers_wait_for_it() -> None:
    c = transform("c", ["b"])
    found = planned(flow(A, B, c), past(a=done(("2013-01-01", "2013-01-03")), b=done(paused=PAUSE)))
    assert states(found, "a") == {"01-03": "ready", "01-04": "ready"}
    assert set(states(found, "b").values()) == {"paused"}
    assert set(states(found, "c").values()) == {"waiting"}
    assert [group.table for group in found.groups] == ["a"]
    assert reason(found, "b", "2013-01-01") == SAID
    assert reason(found, "c", "2013-01-01") == f"waits for b@20130101000000, {SAID}"
    assert found.paused == {"b": PAUSE}


def test_the_wait_chain_leads_to_the_pause_at_its_root() -> None:
    c, d = transform("c", ["b"]), transform("d", ["c"])
    found = planned(flow(A, B, c, d), past(a=done(paused=PAUSE)))
    assert reason(found, "d", "2013-01-01") == f"waits for a@20130101000000, {SAID}"
    way = find_wait_chain(found, "d", at("2013-01-01"))
    assert [step.table for step in way] == ["d", "c", "b", "a"]
    assert (way[-1].status, way[-1].detail, way[-1].is_root) == (Status.PAUSED, SAID, True)


def test_a_failed_input_is_reported_before_a_paused_one() -> None:
    c = transform("c", ["a", "b"])
    other = collect("b")
    ledger = past(a=done(troubles={at("2013-01-01"): failed()}), b=done(paused=PAUSE))
    found = planned(flow(A, other, c), ledger)
    assert states(found, "c") == {"01-01": "blocked", "01-02": "waiting", "01-03": "waiting", "01-04": "waiting"}


def test_failed_and_running_labels_of_a_paused_table_keep_their_status() -> None:
    ledger = past(
        a=done(
            paused=PAUSE,
            troubles={at("2013-01-01"): failed(), at("2013-01-02"): failed(again=at("2013-01-04"))},
            open_claims=(running("2013-01-03"),),
        )
    )
    found = planned(flow(A), ledger)
    assert states(found, "a") == {"01-01": "failed", "01-02": "paused", "01-03": "running", "01-04": "paused"}
    assert found.groups == ()


def test_the_pause_of_all_holds_for_tables_that_the_ledger_has_not_seen() -> None:
    of_all = replace(PAUSE, is_of_all=True)
    found = planned(flow(A, B), LedgerSnapshot(paused=of_all))
    assert {batch.status for batch in found.batches} == {Status.PAUSED}
    assert reason(found, "b", "2013-01-01") == f"all is {SAID}"
    assert (found.groups, found.paused, found.paused_all) == ((), {}, of_all)


def test_a_request_for_a_paused_table_waits() -> None:
    ledger = past(
        a=done(("2013-01-01", "2013-01-05"), paused=PAUSE, requested={at("2013-01-02"): "recompute"}),
        b=done(("2013-01-01", "2013-01-05")),
    )
    found = planned(flow(A, B), ledger)
    assert states(found, "a") == {"01-02": "paused"}
    [batch] = found.batches
    assert (batch.is_revision, batch.verb, display_state_of(batch)) == (True, "recompute", State.STALE)


def test_every_label_of_a_paused_merge_table_is_reported_as_paused() -> None:
    merged = collect("m", mode=Mode.MERGE, is_partitioned=False)
    assert set(states(planned(flow(merged), past(m=done(paused=PAUSE))), "m").values()) == {"paused"}


def test_late_stays_late() -> None:
    tables, ledger = flow(A), past(a=done(("2013-01-01", "2013-01-03")))
    before, after = (
        freshness(tables, ["a"], seen, planned(tables, seen))["a"]
        for seen in (ledger, past(a=replace(ledger.of("a"), paused=PAUSE)))
    )
    assert (before.late, before.behind) == (after.late, after.behind) == (at("2013-01-04"), 2)
    assert after.state is State.PAUSED
