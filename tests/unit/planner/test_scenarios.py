"""Scenarios that comparable tools get wrong, for the planner alone; the commands have separate tests."""

from __future__ import annotations

from datetime import timedelta

from tests.model.flows import at, collect, flow, history, replace_transform, snapshot, transform
from tests.unit.planner.pasts import done, failed, offered, past, reason, states
from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.planner.planning import plan
from waterclock.planner.request import PlanRequest
from waterclock.timelabel.cron import compile_cron

PARENT = collect("parent")
CHILD = transform("child", ["parent"])
TEN_DAYS = at("2013-01-11 01:00")


def test_planner_scenario_a_a_child_waits_for_the_same_window_of_a_parent_due_later() -> None:
    """The parent's cron fires at 08:00, the child's at 00:00; runs at 01:00 and at 09:00."""
    cadence = compile_cron("0 8 * * *", "UTC")
    parent = collect("parent", delay=cadence.delay // timedelta(minutes=1))
    at_one = plan(flow(parent, CHILD), past(parent=done(("2013-01-01", "2013-01-04"))), at("2013-01-05 01:00"))
    assert reason(at_one, "child", "2013-01-04") == "waits for parent@20130104000000, due at 2013-01-05 08:00 +00:00"
    at_nine = plan(flow(parent, CHILD), past(parent=done(("2013-01-01", "2013-01-05"))), at("2013-01-05 09:00"))
    assert states(at_nine, "child")["01-04"] == "ready"


def test_planner_scenario_b_nine_of_ten_run_and_the_tenth_reports_its_blocker() -> None:
    ledger = past(
        parent=done(
            ("2013-01-01", "2013-01-05"), ("2013-01-06", "2013-01-11"), troubles={at("2013-01-05"): failed("bad row")}
        )
    )
    found = plan(flow(PARENT, CHILD), ledger, TEN_DAYS)
    assert list(states(found, "child").values()).count("ready") == 9
    assert reason(found, "child", "2013-01-05") == "blocked by parent@20130105000000, failed: bad row"
    assert offered(found, "parent") == []


def test_planner_scenario_b_a_retry_touches_the_tenth_alone() -> None:
    everything_else = (("2013-01-01", "2013-01-05"), ("2013-01-06", "2013-01-11"))
    ledger = past(parent=done(*everything_else), child=done(*everything_else))
    found = plan(flow(PARENT, CHILD), ledger, TEN_DAYS)
    assert states(found, "parent") == {"01-05": "ready"}
    assert states(found, "child") == {"01-05": "waiting"}


def test_planner_scenario_e_days_of_an_outage_are_caught_up_oldest_first_with_a_cap() -> None:
    before = past(parent=done(("2013-01-01", "2013-01-07")), child=done(("2013-01-01", "2013-01-07")))
    found = plan(flow(PARENT, CHILD), before, TEN_DAYS, PlanRequest(cap=3, group_cap=2))
    assert list(states(found, "parent")) == ["01-07", "01-08", "01-09"]
    assert offered(found, "parent") == [["01-07", "01-08"], ["01-09"]]
    assert found.left_out == {"parent": 1, "child": 1}
    assert plan(flow(PARENT), _all_done(), TEN_DAYS).batches == ()


def test_planner_scenario_e_after_an_outage_a_snapshot_and_a_summary_run_once() -> None:
    snap, summary = snapshot("snap"), replace_transform("summary", [history("parent")])
    found = plan(flow(PARENT, snap, summary), _all_done(), TEN_DAYS)
    assert states(found, "snap") == {"01-10": "ready"}
    assert states(found, "summary") == {"01-10": "ready"}


def test_planner_scenario_f_a_child_selected_alone_waits_and_reports_for_which_batch() -> None:
    found = plan(flow(PARENT, CHILD), LedgerSnapshot(), TEN_DAYS, PlanRequest(only=["child"]))
    assert found.groups == ()
    assert set(states(found, "child").values()) == {"waiting"}
    assert reason(found, "child", "2013-01-01") == "waits for parent@20130101000000, not selected"


def _all_done() -> LedgerSnapshot:
    return past(parent=done(("2013-01-01", "2013-01-11")))
