"""States without readers that a user requested in the ledger are made as in a forced run."""

from __future__ import annotations

from tests.model.flows import at, collect, flow, history, transform
from tests.unit.planner.pasts import done, past, states
from waterclock.flow.enums import Mode
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest

NOW = at("2013-01-05 12:00")
WANTED = frozenset({at("2013-01-02")})
FLOW = flow(
    collect("a"),
    transform("state", [history("a")], mode=Mode.REPLACE, is_partitioned=False),
    transform("above", ["state"], mode=Mode.REPLACE, is_partitioned=False),
)


def test_a_label_with_a_backfill_request_is_made_with_its_inputs() -> None:
    snapshot = past(a=done(("2013-01-01", "2013-01-05")), above=done(wanted=WANTED))
    plan = Planner(FLOW).plan(snapshot, NOW)
    assert states(plan, "above") == {"01-02": "waiting", "01-04": "waiting"}
    assert states(plan, "state") == {"01-02": "ready", "01-04": "ready"}
    assert [batch.reason for batch in plan.batches if batch.table == "state"] == ["due", "due"]


def test_a_backfill_request_yields_the_same_batches_as_a_forced_run() -> None:
    snapshot = past(a=done(("2013-01-01", "2013-01-05")), state=done(wanted=WANTED))
    bare = past(a=done(("2013-01-01", "2013-01-05")))
    groups = Planner(FLOW).ready(snapshot, NOW)
    forced = Planner(FLOW).ready(bare, NOW, PlanRequest(force={"state": WANTED}))
    assert [(group.table, [batch.label for batch in group.batches]) for group in groups] == [
        (group.table, [batch.label for batch in group.batches]) for group in forced
    ]
    assert Planner(FLOW).plan(snapshot, NOW).batches[0].reason == "backfill requested"


def test_a_requested_label_that_is_already_done_is_not_made_again() -> None:
    all_ = ("2013-01-01", "2013-01-05")
    snapshot = past(a=done(all_), state=done(all_, wanted=WANTED), above=done(all_))
    assert Planner(FLOW).plan(snapshot, NOW).batches == ()
