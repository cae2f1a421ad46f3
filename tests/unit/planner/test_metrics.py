from __future__ import annotations

from datetime import timedelta

from tests.model.flows import at, collect, flow, transform
from waterclock.batches.ledger_snapshot import BatchStatus, FailedBatch, LedgerSnapshot, OpenClaim, TableFacts
from waterclock.planner.metrics import REPORTED_STATUSES, metrics_of
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.timelabel.intervals import IntervalSet

FLOW = flow(collect("raw.a", "DAY"), collect("raw.b", "DAY"))
NOW = at("2013-01-05")
DAY = timedelta(days=1)


def told(**facts: TableFacts) -> dict[str, dict[tuple[str, ...], float]]:
    snapshot = LedgerSnapshot({f"raw.{name}": of for name, of in facts.items()}, sequence=7)
    plan = Planner(FLOW).plan(snapshot, NOW, PlanRequest(cap=3))
    return {metric.name: dict(metric.values) for metric in metrics_of(FLOW, snapshot, plan, NOW)}


def covered(first: str, last: str) -> IntervalSet:
    return IntervalSet.from_intervals([(at(first), at(last))])


def test_each_table_reports_every_status_so_that_no_series_disappears() -> None:
    found = told()
    assert set(found["waterclock_due_labels"]) == {
        (name, str(status)) for name in ("raw.a", "raw.b") for status in REPORTED_STATUSES
    }
    assert found["waterclock_ledger_sequence"] == {(): 7.0}


def test_labels_that_can_never_be_made_are_counted_as_due() -> None:
    reads = flow(collect("raw.a", "DAY"), transform("made.b", ["raw.a"]))
    gone = TableFacts(
        start=at("2013-01-01"), covered=covered("2013-01-01", "2013-01-05"), dropped_before=at("2013-01-03")
    )
    snapshot = LedgerSnapshot({"raw.a": gone})
    plan = Planner(reads).plan(snapshot, NOW)
    found = {metric.name: metric.values for metric in metrics_of(reads, snapshot, plan, NOW)}
    assert found["waterclock_due_labels"]["made.b", "expired"] == 2


def test_a_table_reports_its_coverage_up_to_the_first_gap() -> None:
    facts = TableFacts(
        start=at("2013-01-01"),
        covered=covered("2013-01-01", "2013-01-02") | covered("2013-01-03", "2013-01-04"),
        codes={"new": 1, "old": 1},
        seconds_per_batch=2.5,
    )
    found = told(a=facts)
    assert found["waterclock_covered_until_seconds"] == {("raw.a",): at("2013-01-02").timestamp()}
    assert found["waterclock_behind_seconds"] == {("raw.a",): 3 * DAY.total_seconds()}
    assert found["waterclock_done_labels"][("raw.a",)] == 2
    assert found["waterclock_batch_seconds"] == {("raw.a",): 2.5}


def test_failed_left_out_and_claimed_labels_are_counted() -> None:
    failed = FailedBatch(BatchStatus.FAILED, claim=1, attempts=1, error="E730", is_transient=False, due_again=None)
    found = told(
        a=TableFacts(
            start=at("2013-01-01"), covered=covered("2013-01-01", "2013-01-03"), troubles={at("2013-01-03"): failed}
        ),
        b=TableFacts(start=at("2012-12-01"), open_claims=(OpenClaim(9, (at("2012-12-01"),), "one", NOW + DAY),)),
    )
    due = found["waterclock_due_labels"]
    assert due["raw.a", "failed"] == 1
    assert found["waterclock_left_out_labels"][("raw.b",)] >= 1
    assert found["waterclock_open_claims"] == {(): 1.0}
