from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.model.flows import (
    at,
    cadence,
    collect,
    day,
    days,
    flow,
    history,
    latest,
    merge_transform,
    previous,
    publish,
    replace_transform,
    snapshot,
    transform,
    until,
)
from tests.unit.planner.pasts import done, failed, offered, past, read_then, reason, running, states
from waterclock.batches.ledger_snapshot import BEGINNING, BatchStatus, LedgerSnapshot, TableFacts
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Batching, Mode, OnRestate
from waterclock.planner.plan import Cause, Plan, ReadScope, Status
from waterclock.planner.planning import Planner, plan
from waterclock.planner.request import PlanRequest
from waterclock.selection import parse_labels
from waterclock.timelabel.intervals import IntervalSet

NOW = at("2013-01-05 03:00")
A = collect("a")
B = transform("b", ["a"])
EMPTY = LedgerSnapshot()


def planned(tables: Flow, ledger: LedgerSnapshot = EMPTY, now: datetime = NOW) -> Plan:
    """Return the plan; assert that the shortcut to the groups gives the same groups."""
    found = plan(tables, ledger, now)
    assert Planner(tables).ready(ledger, now) == found.groups
    return found


class TestDue:
    def test_windows_from_start_to_the_newest_ended_are_due(self) -> None:
        assert list(states(planned(flow(A)), "a")) == ["01-01", "01-02", "01-03", "01-04"]

    def test_a_window_is_due_once_its_delay_has_passed(self) -> None:
        late = collect("a", delay=240)
        assert "01-04" not in states(planned(flow(late)), "a")
        assert "01-04" in states(planned(flow(late), now=at("2013-01-05 04:00")), "a")

    def test_nothing_is_due_where_all_is_covered(self) -> None:
        found = planned(flow(A, B), past(a=done(("2013-01-01", "2013-01-05")), b=done(("2013-01-01", "2013-01-05"))))
        assert (found.batches, found.groups, found.left_out) == ((), (), {})

    def test_a_skipped_label_counts_as_covered(self) -> None:
        found = planned(flow(A, B), past(a=done(("2013-01-01", "2013-01-05"))))
        assert set(states(found, "b").values()) == {"ready"}

    def test_next_due_is_the_first_instant_at_which_any_table_becomes_due(self) -> None:
        hourly = collect("h", "HOUR", delay=10, start=at("2013-01-01"))
        assert planned(flow(A, hourly)).next_due == at("2013-01-05 03:10")
        assert planned(flow(A)).next_due == at("2013-01-06")
        assert planned(flow(collect("a", start=at("2014-01-01")))).next_due == at("2014-01-02")

    def test_an_empty_flow_has_an_empty_plan(self) -> None:
        assert planned(flow()) == Plan(now=NOW)

    def test_the_cap_leaves_the_rest_due_and_counts_it(self) -> None:
        found = plan(flow(A), EMPTY, NOW, PlanRequest(cap=3))
        assert list(states(found, "a")) == ["01-01", "01-02", "01-03"]
        assert found.left_out == {"a": 1}

    def test_ready_batches_behind_blocked_ones_are_offered_whatever_the_cap(self) -> None:
        troubles = {at(f"2013-01-0{number}"): failed() for number in (1, 2, 3)}
        ledger = past(a=done(troubles=troubles))
        found = plan(flow(A), ledger, NOW, PlanRequest(cap=1))
        assert list(states(found, "a")) == ["01-01", "01-02"]
        assert offered(found, "a") == [["01-04"]]

    def test_failed_and_held_batches_are_listed_whatever_the_cap(self) -> None:
        troubles = {at("2013-01-03"): failed(), at("2013-01-04"): failed(status=BatchStatus.HELD)}
        found = plan(flow(A), past(a=done(troubles=troubles)), NOW, PlanRequest(cap=2))
        assert states(found, "a") == {"01-01": "ready", "01-02": "ready", "01-03": "failed", "01-04": "held"}
        assert found.left_out == {}
        fewer = plan(flow(A), past(a=done(troubles=troubles)), NOW, PlanRequest(cap=1))
        assert states(fewer, "a") == {"01-01": "ready", "01-03": "failed"}
        assert fewer.left_out == {"a": 2}
        apart = plan(
            flow(A), past(a=done(troubles=troubles)), NOW, PlanRequest(cap=1, labels=parse_labels("2013-01-02"))
        )
        assert states(apart, "a") == {"01-02": "ready"}


class TestSettled:
    def test_a_batch_waits_only_for_its_inputs(self) -> None:
        found = planned(flow(A, B), past(a=done(("2013-01-01", "2013-01-02"), ("2013-01-04", "2013-01-05"))))
        assert states(found, "b") == {"01-01": "ready", "01-02": "waiting", "01-03": "waiting", "01-04": "ready"}
        assert reason(found, "b", "2013-01-02") == "waits for a@20130102000000, ready"

    def test_an_input_that_is_not_due_is_named_with_the_time_it_will_be(self) -> None:
        slow = collect("a", delay=600)
        found = planned(flow(slow, B), past(a=done(("2013-01-01", "2013-01-04"))))
        assert reason(found, "b", "2013-01-04") == "waits for a@20130104000000, due at 2013-01-05 10:00 +00:00"

    def test_an_append_or_merge_state_needs_all_windows_from_start(self) -> None:
        merged = collect("m", mode=Mode.MERGE, is_partitioned=False)
        child = transform("t", ["m"])
        holed = past(m=done(("2013-01-01", "2013-01-02"), ("2013-01-03", "2013-01-05")))
        assert states(planned(flow(merged, child), holed), "t") == {
            "01-01": "ready",
            "01-02": "waiting",
            "01-03": "waiting",
            "01-04": "waiting",
        }

    def test_a_replace_state_needs_its_own_window_alone(self) -> None:
        table, child = replace_transform("r", ["a"]), transform("t", ["r"])
        ledger = past(a=done(("2013-01-01", "2013-01-05")), r=done(("2013-01-03", "2013-01-04")))
        assert states(planned(flow(A, table, child), ledger), "t")["01-03"] == "ready"

    def test_a_stale_batch_runs_again_and_its_readers_wait(self) -> None:
        c = transform("c", ["b"])
        ledger = past(
            a=done(("2013-01-01", "2013-01-05")),
            b=done(
                ("2013-01-01", "2013-01-05"),
                suspects={at("2013-01-02"): (read_then("a", "2013-01-02", "2013-01-03", is_changed=True),)},
            ),
            c=done(
                ("2013-01-01", "2013-01-04"),
                suspects={at("2013-01-02"): (read_then("b", "2013-01-02", "2013-01-03", is_changed=False),)},
            ),
        )
        found = planned(flow(A, B, c), ledger)
        assert states(found, "b") == {"01-02": "ready"}
        assert states(found, "c") == {"01-04": "ready"}
        assert reason(found, "b", "2013-01-02") == "stale: a changed since"
        assert found.batches[0].is_revision

    def test_a_suspect_whose_inputs_are_equal_again_is_settled(self) -> None:
        unchanged = {at("2013-01-02"): (read_then("a", "2013-01-02", "2013-01-03", is_changed=False),)}
        ledger = past(a=done(("2013-01-01", "2013-01-05")), b=done(("2013-01-01", "2013-01-05"), suspects=unchanged))
        assert planned(flow(A, B), ledger).batches == ()

    def test_a_new_batch_never_mixes_restated_and_not_yet_restated_inputs(self) -> None:
        """Finding F6: c reads the histories of a and b; a@2 was restated, b@2 not yet."""
        c = transform("c", [history("a"), history("b")])
        stale = {at("2013-01-02"): (read_then("a", "2013-01-02", "2013-01-03", is_changed=True),)}
        ledger = past(a=done(("2013-01-01", "2013-01-05")), b=done(("2013-01-01", "2013-01-05"), suspects=stale))
        found = planned(flow(A, B, c), ledger)
        assert states(found, "c") == {"01-01": "ready", "01-02": "waiting", "01-03": "waiting", "01-04": "waiting"}

    def test_a_batch_under_an_open_claim_is_running_and_unsettled(self) -> None:
        ledger = past(a=done(("2013-01-01", "2013-01-04"), open_claims=(running("2013-01-02", "2013-01-04"),)))
        found = planned(flow(A, B), ledger)
        assert states(found, "a") == {"01-02": "running", "01-04": "running"}
        assert states(found, "b")["01-02"] == "waiting"
        assert reason(found, "b", "2013-01-04") == "waits for a@20130104000000, running"

    def test_a_requested_batch_runs_again_and_its_readers_wait(self) -> None:
        ledger = past(a=done(("2013-01-01", "2013-01-05"), requested={at("2013-01-02"): "recompute"}))
        found = planned(flow(A, B), ledger)
        assert reason(found, "a", "2013-01-02") == "recompute requested"
        assert states(found, "b")["01-02"] == "waiting"

    def test_dependents_of_a_batch_made_again_are_counted(self) -> None:
        rests = {at("2013-01-02"): (read_then("a", "2013-01-02", "2013-01-03", is_changed=False),)}
        spans = ("2013-01-01", "2013-01-05")
        ledger = past(a=done(spans, requested={at("2013-01-02"): "recompute"}), b=done(spans, suspects=rests))
        assert planned(flow(A, B), ledger).following == {"b": 1}

    def test_a_forced_label_is_made_again_without_a_recorded_request(self) -> None:
        ledger = past(a=done(("2013-01-01", "2013-01-05")), b=done(("2013-01-01", "2013-01-05")))
        found = plan(flow(A, B), ledger, NOW, PlanRequest(force={"a": frozenset({at("2013-01-03")})}))
        assert states(found, "a") == {"01-03": "ready"}
        assert found.batches[0].is_revision


class TestReporting:
    """ON RESTATE REPORT: changed inputs are reported, count as settled, and wait for a request."""

    def found(self, **more: object) -> Plan:
        b, c = replace(B, on_restate=OnRestate.REPORT), transform("c", ["b"])
        suspects = {
            at("2013-01-02"): (read_then("a", "2013-01-02", "2013-01-03", is_changed=True),),
            at("2013-01-03"): (read_then("a", "2013-01-03", "2013-01-04", is_changed=False),),
        }
        spans = ("2013-01-01", "2013-01-05")
        ledger = past(a=done(spans), b=done(spans, suspects=suspects, **more), c=done(("2013-01-01", "2013-01-02")))
        return planned(flow(A, b, c), ledger)

    def test_a_batch_whose_input_changed_is_reported_and_not_made_again(self) -> None:
        assert self.found().reported == {"b": (at("2013-01-02"),)}
        assert states(self.found(), "b") == {}

    def test_its_readers_do_not_wait_for_it(self) -> None:
        assert set(states(self.found(), "c").values()) == {"ready"}

    def test_a_reported_batch_is_made_again_on_request(self) -> None:
        found = self.found(requested={at("2013-01-02"): "recompute"})
        assert found.reported == {}
        assert states(found, "b") == {"01-02": "ready"}
        assert states(found, "c")["01-02"] == "waiting"


class TestTrouble:
    def test_a_failed_batch_is_not_offered_and_blocks_its_dependents(self) -> None:
        c = transform("c", ["b"])
        ledger = past(a=done(("2013-01-01", "2013-01-04"), troubles={at("2013-01-04"): failed("no such file\nmore")}))
        found = planned(flow(A, B, c), ledger)
        assert states(found, "a") == {"01-04": "failed"}
        assert reason(found, "b", "2013-01-04") == "blocked by a@20130104000000, failed: no such file"
        assert reason(found, "c", "2013-01-04") == "blocked by a@20130104000000, failed: no such file"
        assert states(found, "c")["01-03"] == "waiting"
        blocked = next(batch for batch in found.batches if batch.table == "c" and batch.status is Status.BLOCKED)
        assert blocked.causes == (Cause("a", day("2013-01-04"), Status.FAILED, "no such file"),)

    def test_a_held_batch_blocks_too(self) -> None:
        troubles = {at("2013-01-04"): failed("fewer rows", status=BatchStatus.HELD)}
        found = planned(flow(A, B), past(a=done(("2013-01-01", "2013-01-04"), troubles=troubles)))
        assert states(found, "a") == {"01-04": "held"}
        assert reason(found, "b", "2013-01-04") == "blocked by a@20130104000000, held: fewer rows"

    def test_a_timed_retry_is_offered_once_the_real_clock_has_reached_its_time(self) -> None:
        due = NOW + timedelta(hours=1)
        troubles = {at("2013-01-04"): failed("locked", again=due)}
        ledger = past(a=done(("2013-01-01", "2013-01-04"), troubles=troubles))
        assert states(plan(flow(A), ledger, NOW), "a") == {"01-04": "failed"}
        later = plan(flow(A), ledger, NOW, PlanRequest(clock=due))
        assert states(later, "a") == {"01-04": "ready"}
        assert reason(later, "a", "2013-01-04") == "tried again after: locked"

    def test_a_retry_does_not_wait_for_a_clock_that_was_set_back(self) -> None:
        troubles = {at("2013-01-04"): failed("locked", again=NOW)}
        ledger = past(a=done(("2013-01-01", "2013-01-04"), troubles=troubles))
        found = plan(flow(A), ledger, NOW, PlanRequest(clock=NOW - timedelta(days=1)))
        assert states(found, "a") == {"01-04": "ready"}

    def test_failed_labels_are_retried_one_at_a_time(self) -> None:
        troubles = {at("2013-01-02"): failed(again=NOW), at("2013-01-03"): failed(again=NOW)}
        found = planned(flow(A), past(a=done(troubles=troubles)))
        assert offered(found, "a") == [["01-01"], ["01-02"], ["01-03"], ["01-04"]]

    def test_a_failed_revision_blocks_its_readers_though_it_was_done(self) -> None:
        ledger = past(
            a=done(
                ("2013-01-01", "2013-01-05"),
                requested={at("2013-01-02"): "recompute"},
                troubles={at("2013-01-02"): failed()},
            )
        )
        found = planned(flow(A, B), ledger)
        assert states(found, "b")["01-02"] == "blocked"


class TestOrder:
    def test_a_merge_table_offers_its_oldest_label_alone(self) -> None:
        merged = collect("m", mode=Mode.MERGE, is_partitioned=False)
        found = planned(flow(merged))
        assert offered(found, "m") == [["01-01"]]
        assert reason(found, "m", "2013-01-03") == "waits for m@20130101000000, ready"

    def test_nothing_passes_a_failed_label_of_a_table_in_label_order(self) -> None:
        merged = collect("m", mode=Mode.MERGE, is_partitioned=False)
        ledger = past(m=done(("2013-01-01", "2013-01-02"), troubles={at("2013-01-02"): failed()}))
        found = planned(flow(merged), ledger)
        assert offered(found, "m") == []
        assert states(found, "m") == {"01-02": "failed", "01-03": "blocked", "01-04": "blocked"}

    def test_sequential_partitioned_labels_go_one_by_one(self) -> None:
        found = planned(flow(collect("a", is_sequential=True)))
        assert offered(found, "a") == [["01-01"]]

    def test_a_regular_table_has_one_open_claim_at_a_time(self) -> None:
        regular = collect("a", is_partitioned=False)
        ledger = past(a=done(open_claims=(running("2013-01-01"),)))
        found = planned(flow(regular), ledger)
        assert states(found, "a")["01-02"] == "ready"
        assert offered(found, "a") == []

    def test_a_regular_append_table_passes_a_failed_label(self) -> None:
        regular = collect("a", is_partitioned=False)
        found = planned(flow(regular), past(a=done(troubles={at("2013-01-01"): failed()})))
        assert offered(found, "a") == [["01-02"]]

    def test_partitioned_labels_share_a_claim_up_to_the_group_cap(self) -> None:
        found = plan(flow(A), EMPTY, NOW, PlanRequest(group_cap=3))
        assert offered(found, "a") == [["01-01", "01-02", "01-03"], ["01-04"]]

    def test_labels_by_data_time_share_a_claim_up_to_a_month(self) -> None:
        later = at("2013-03-01")
        found = plan(flow(A), EMPTY, later, PlanRequest(group_cap=366))
        assert [len(group.batches) for group in found.groups] == [28, 31], "the newest labels go first"
        arrived = collect("a", batching=Batching.ARRIVAL_TIME)
        assert [
            len(group.batches) for group in plan(flow(arrived), EMPTY, later, PlanRequest(group_cap=366)).groups
        ] == [59]

    def test_arrival_windows_seal_in_order_and_may_share_a_claim(self) -> None:
        arrived = collect("a", batching=Batching.ARRIVAL_TIME)
        assert offered(plan(flow(arrived), EMPTY, NOW, PlanRequest(group_cap=3)), "a") == [["01-01", "01-02", "01-03"]]
        held_up = past(a=done(("2013-01-01", "2013-01-02"), troubles={at("2013-01-03"): failed()}))
        found = planned(flow(arrived), held_up)
        assert offered(found, "a") == [["01-02"]]
        assert states(found, "a")["01-04"] == "blocked"

    def test_each_label_that_arrived_and_failed_blocks_its_own_readers(self) -> None:
        troubles = {at(f"2013-01-0{number}"): failed(f"file {number}") for number in (1, 2, 3)}
        arrived = collect("a", batching=Batching.ARRIVAL_TIME)
        found = planned(flow(arrived, B), past(a=done(troubles=troubles)))
        assert reason(found, "b", "2013-01-02") == "blocked by a@20130102000000, failed: file 2"
        assert reason(found, "b", "2013-01-03") == "blocked by a@20130103000000, failed: file 3"

    def test_groups_are_claimed_oldest_first_upstream_first(self) -> None:
        ledger = past(a=done(("2013-01-01", "2013-01-02"), ("2013-01-03", "2013-01-04")))
        found = plan(flow(A, B), ledger, NOW, PlanRequest(group_cap=1))
        assert [(group.table, f"{group.batches[0].label:%d}") for group in found.groups] == [
            ("b", "01"),
            ("a", "02"),
            ("b", "03"),
            ("a", "04"),
        ]

    def test_a_running_total_waits_for_its_own_label_before(self) -> None:
        total = replace_transform("t", ["a", previous("t")])
        ledger = past(a=done(("2013-01-01", "2013-01-05")), t=done(("2013-01-01", "2013-01-03")))
        found = planned(flow(A, total), ledger)
        assert states(found, "t") == {"01-03": "ready", "01-04": "waiting"}


class TestNotNeeded:
    SUMMARY = replace_transform("s", [history("a")])

    def test_only_the_newest_label_of_a_replace_transform_is_needed(self) -> None:
        found = planned(flow(A, self.SUMMARY), past(a=done(("2013-01-01", "2013-01-05"))))
        assert states(found, "s") == {"01-04": "ready"}

    def test_labels_that_a_due_batch_reads_are_needed(self) -> None:
        reader = transform("t", ["s"])
        ledger = past(a=done(("2013-01-01", "2013-01-05")), t=done(("2013-01-01", "2013-01-02")))
        found = planned(flow(A, self.SUMMARY, reader), ledger)
        assert list(states(found, "s")) == ["01-02", "01-03", "01-04"]

    def test_a_coarser_reader_needs_the_ticks_at_its_ends_alone(self) -> None:
        hourly = replace_transform("s", [history("a")], "HOUR")
        reader = transform("t", ["s"])
        found = planned(flow(A, hourly, reader), past(a=done(("2013-01-01", "2013-01-05"))))
        assert list(states(found, "s")) == ["01-01 23:00", "01-02 23:00", "01-03 23:00", "01-04 23:00", "01-05 02:00"]

    def test_need_is_handed_on_from_reader_to_reader(self) -> None:
        middle = replace_transform("m", ["s"])
        reader = transform("t", ["m"])
        ledger = past(a=done(("2013-01-01", "2013-01-05")), t=done(("2013-01-01", "2013-01-03")))
        found = planned(flow(A, self.SUMMARY, middle, reader), ledger)
        assert list(states(found, "s")) == list(states(found, "m")) == ["01-03", "01-04"]

    def test_a_stale_label_without_a_reader_is_not_made_again(self) -> None:
        stale = {at("2013-01-02"): (read_then("a", "2013-01-01", "2013-01-03", is_changed=True),)}
        ledger = past(a=done(("2013-01-01", "2013-01-05")), s=done(("2013-01-01", "2013-01-05"), suspects=stale))
        assert planned(flow(A, self.SUMMARY), ledger).batches == ()

    def test_a_stale_label_that_a_done_batch_depends_on_is_needed(self) -> None:
        reader = transform("t", ["s"])
        stale = {at("2013-01-02"): (read_then("a", "2013-01-01", "2013-01-03", is_changed=True),)}
        standing = {at("2013-01-02"): (read_then("s", "2013-01-02", "2013-01-03", is_changed=False),)}
        ledger = past(
            a=done(("2013-01-01", "2013-01-05")),
            s=done(("2013-01-01", "2013-01-05"), suspects=stale),
            t=done(("2013-01-01", "2013-01-05"), suspects=standing),
        )
        assert states(planned(flow(A, self.SUMMARY, reader), ledger), "s") == {"01-02": "ready"}

    def test_a_running_total_needs_every_label(self) -> None:
        total = replace_transform("t", ["a", previous("t")])
        assert len(states(planned(flow(A, total)), "t")) == 4

    def test_tables_in_a_circle_need_every_label(self) -> None:
        first, second = replace_transform("x", ["a", previous("y")]), replace_transform("y", ["x"])
        found = planned(flow(A, first, second), past(a=done(("2013-01-01", "2013-01-05"))))
        assert len(states(found, "x")) == len(states(found, "y")) == 4
        assert offered(found, "x") == [["01-01"]]

    def test_the_newest_label_is_the_newest_that_can_be_made(self) -> None:
        """An input with a longer DELAY arrives after the next label is due: the label before must not be given up."""
        slow = collect("a", "HOUR", delay=90)
        table = replace_transform("s", ["a"], "HOUR")
        ledger = past(a=done(("2013-01-01", "2013-01-05 01:00")))
        found = planned(flow(slow, table), ledger, at("2013-01-05 02:40"))
        assert states(found, "s") == {"01-05": "ready"}

    def test_a_forced_label_is_needed(self) -> None:
        found = plan(
            flow(A, self.SUMMARY),
            past(a=done(("2013-01-01", "2013-01-05"))),
            NOW,
            PlanRequest(force={"s": frozenset({at("2013-01-02")})}),
        )
        assert list(states(found, "s")) == ["01-02", "01-04"]


class TestSnapshots:
    SNAP = snapshot("s")

    def test_the_first_snapshot_is_the_newest_complete_label_and_covers_all_time_before(self) -> None:
        (batch,) = planned(flow(self.SNAP)).batches
        assert (batch.window, batch.stands_from) == (day("2013-01-04"), BEGINNING)

    def test_the_next_snapshot_covers_every_window_since_the_last_one(self) -> None:
        stood = IntervalSet.from_intervals([(BEGINNING, at("2013-01-02"))])
        (batch,) = planned(flow(self.SNAP), past(s=TableFacts(covered=stood))).batches
        assert (batch.window, batch.stands_from) == (day("2013-01-04"), at("2013-01-02"))

    def test_readers_of_older_ticks_wait_for_it(self) -> None:
        child = transform("t", ["a", "s"])
        found = planned(flow(A, self.SNAP, child), past(a=done(("2013-01-01", "2013-01-05"))))
        assert set(states(found, "t").values()) == {"waiting"}
        assert reason(found, "t", "2013-01-02") == "waits for s@20130104000000, ready"

    def test_a_failed_snapshot_is_not_retried_once_a_newer_label_is_complete(self) -> None:
        ledger = past(s=TableFacts(troubles={at("2013-01-03"): failed()}))
        assert states(planned(flow(self.SNAP), ledger), "s") == {"01-04": "ready"}

    def test_a_restated_snapshot_makes_all_windows_it_covers_unsettled(self) -> None:
        child = transform("t", ["a", "s"])
        label = at("2013-01-04")
        facts = TableFacts(
            covered=IntervalSet.from_intervals([(BEGINNING, at("2013-01-05"))]),
            requested={label: "recompute"},
            period_starts={label: at("2013-01-02")},
        )
        found = planned(flow(A, self.SNAP, child), past(a=done(("2013-01-01", "2013-01-05")), s=facts))
        (again,) = [batch for batch in found.batches if batch.table == "s"]
        assert (again.is_revision, again.stands_from) == (True, at("2013-01-02"))
        assert states(found, "t") == {"01-01": "ready", "01-02": "waiting", "01-03": "waiting", "01-04": "waiting"}


class TestLatest:
    LOOKUP = merge_transform("m", ["a"])
    READER = transform("t", ["a", latest("m")])

    def ticks(self, ledger: LedgerSnapshot) -> dict[str, datetime]:
        found = planned(flow(A, self.LOOKUP, self.READER), ledger)
        return {f"{b.label:%d}": b.reads[-1].high for b in found.batches if b.table == "t" and b.reads}

    def test_it_waits_for_the_first_batch_alone(self) -> None:
        ledger = past(a=done(("2013-01-01", "2013-01-05")))
        found = planned(flow(A, self.LOOKUP, self.READER), ledger)
        assert reason(found, "t", "2013-01-01") == "waits for m@20130101000000, LATEST(m) waits for a first batch"

    def test_the_first_run_picks_the_newest_settled_tick(self) -> None:
        ledger = past(a=done(("2013-01-01", "2013-01-05")), m=done(("2013-01-01", "2013-01-04")))
        assert set(self.ticks(ledger).values()) == {at("2013-01-04")}

    def test_a_hole_bounds_the_ticks_of_a_merge_table(self) -> None:
        ledger = past(
            a=done(("2013-01-01", "2013-01-05")), m=done(("2013-01-01", "2013-01-02"), ("2013-01-03", "2013-01-05"))
        )
        assert set(self.ticks(ledger).values()) == {at("2013-01-02")}

    def test_an_unsettled_tick_is_passed_over_for_an_older_one(self) -> None:
        summary = replace_transform("s", [history("a")])
        stale = {at("2013-01-04"): (read_then("a", "2013-01-01", "2013-01-05", is_changed=True),)}
        ledger = past(
            a=done(("2013-01-01", "2013-01-05")),
            s=done(("2013-01-01", "2013-01-02"), ("2013-01-04", "2013-01-05"), suspects=stale),
        )
        found = planned(flow(A, summary, transform("t", ["a", latest("s")])), ledger)
        assert {batch.reads[-1].high for batch in found.batches if batch.table == "t"} == {at("2013-01-02")}

    def test_a_revision_keeps_its_tick(self) -> None:
        ledger = past(
            a=done(("2013-01-01", "2013-01-05")),
            m=done(("2013-01-01", "2013-01-05")),
            t=done(
                ("2013-01-01", "2013-01-05"),
                requested={at("2013-01-02"): "recompute"},
                latest={at("2013-01-02"): {"m": at("2013-01-03")}},
            ),
        )
        assert self.ticks(ledger) == {"02": at("2013-01-03")}


class TestPublish:
    def test_from_a_regular_table_only_the_newest_tick_is_delivered(self) -> None:
        merged = collect("m", mode=Mode.MERGE, is_partitioned=False)
        ledger = past(m=done(("2013-01-01", "2013-01-05")), p=done(("2013-01-01", "2013-01-02")))
        assert states(planned(flow(merged, publish("p", merged)), ledger), "p") == {"01-04": "ready"}

    def test_a_stale_older_delivery_is_not_repeated(self) -> None:
        merged = collect("m", mode=Mode.MERGE, is_partitioned=False)
        stale = {at("2013-01-02"): (read_then("m", "2013-01-01", "2013-01-03", is_changed=True),)}
        ledger = past(m=done(("2013-01-01", "2013-01-05")), p=done(("2013-01-01", "2013-01-05"), suspects=stale))
        assert planned(flow(merged, publish("p", merged)), ledger).batches == ()

    def test_from_a_partitioned_table_every_label_is_delivered_in_label_order(self) -> None:
        ledger = past(a=done(("2013-01-01", "2013-01-05")))
        found = planned(flow(A, publish("p", A)), ledger)
        assert len(states(found, "p")) == 4
        assert offered(found, "p") == [["01-01"]]

    def test_from_a_regular_append_table_every_label_is_delivered_by_append(self) -> None:
        appended = collect("a", is_partitioned=False)
        ledger = past(a=done(("2013-01-01", "2013-01-05")), p=done(("2013-01-01", "2013-01-03")))
        found = planned(flow(appended, publish("p", appended)), ledger)
        assert states(found, "p") == {"01-03": "ready", "01-04": "waiting"}
        (read,) = found.batches[0].reads
        assert (read.scope, read.low, read.high) == (ReadScope.SLICES, at("2013-01-03"), at("2013-01-04"))

    def test_a_stale_label_of_a_regular_append_table_is_delivered_again(self) -> None:
        appended = collect("a", is_partitioned=False)
        stale = {at("2013-01-02"): (read_then("a", "2013-01-02", "2013-01-03", is_changed=True),)}
        ledger = past(a=done(("2013-01-01", "2013-01-05")), p=done(("2013-01-01", "2013-01-05"), suspects=stale))
        assert states(planned(flow(appended, publish("p", appended)), ledger), "p") == {"01-02": "ready"}

    def test_of_a_regular_append_table_the_newest_state_is_delivered_by_replace(self) -> None:
        appended = collect("a", is_partitioned=False)
        ledger = past(a=done(("2013-01-01", "2013-01-05")))
        found = planned(flow(appended, publish("p", appended, mode=Mode.REPLACE)), ledger)
        assert states(found, "p") == {"01-04": "ready"}

    @pytest.mark.parametrize("is_partitioned", [True, False])
    def test_a_coarser_publish_leaves_no_row_behind_at_start(self, is_partitioned: bool) -> None:
        begun = collect("a", "HOUR", is_partitioned=is_partitioned, start=at("2013-01-01 05:00"))
        ledger = past(a=done(("2013-01-01 05:00", "2013-01-05")))
        found = planned(flow(begun, publish("p", begun, cadence=cadence("DAY"))), ledger)
        assert list(states(found, "p")) == ["01-01", "01-02", "01-03", "01-04"]
        (read,) = next(batch for batch in found.batches if batch.table == "p").reads
        assert (read.low, read.high) == (at("2013-01-01 05:00"), at("2013-01-02"))

    def test_a_publish_needs_only_the_newest_label_of_a_replace_transform(self) -> None:
        table = replace_transform("s", [history("a")])
        ledger = past(a=done(("2013-01-01", "2013-01-05")))
        assert list(states(planned(flow(A, table, publish("p", table)), ledger), "s")) == ["01-04"]


class TestRetain:
    KEPT = collect("k", retain=days(2))
    CHILD = transform("t", ["k"])

    def test_a_batch_that_needs_dropped_windows_is_expired(self) -> None:
        ledger = past(k=done(("2013-01-01", "2013-01-05"), dropped_before=at("2013-01-03")))
        found = planned(flow(self.KEPT, self.CHILD), ledger)
        assert states(found, "t") == {"01-01": "expired", "01-02": "expired", "01-03": "ready", "01-04": "ready"}
        assert reason(found, "t", "2013-01-01") == "RETAIN of k has dropped its inputs"

    def test_a_done_batch_whose_input_was_dropped_is_not_made_again_and_counts_as_settled(self) -> None:
        grandchild = transform("g", ["t"])
        stale = {at("2013-01-01"): (read_then("k", "2013-01-01", "2013-01-02", is_changed=True),)}
        ledger = past(
            k=done(("2013-01-01", "2013-01-05"), dropped_before=at("2013-01-03")),
            t=done(("2013-01-01", "2013-01-05"), suspects=stale),
        )
        found = planned(flow(self.KEPT, self.CHILD, grandchild), ledger)
        assert states(found, "t") == {}
        assert states(found, "g")["01-01"] == "ready"

    def test_dropped_windows_are_not_collected_again(self) -> None:
        found = planned(flow(self.KEPT), past(k=TableFacts(dropped_before=at("2013-01-03"))))
        assert list(states(found, "k")) == ["01-03", "01-04"]


class TestChoice:
    def test_only_the_chosen_tables_are_planned_and_others_are_named_as_not_selected(self) -> None:
        found = plan(flow(A, B), EMPTY, NOW, PlanRequest(only=["b"]))
        assert states(found, "a") == {}
        assert reason(found, "b", "2013-01-01") == "waits for a@20130101000000, not selected"

    def test_only_the_chosen_labels_are_planned(self) -> None:
        labels = parse_labels("2013-01-02..2013-01-03")
        assert list(states(plan(flow(A), EMPTY, NOW, PlanRequest(labels=labels)), "a")) == ["01-02", "01-03"]
        found = plan(flow(A, B), EMPTY, NOW, PlanRequest(labels={"a": labels}))
        assert (len(states(found, "a")), len(states(found, "b"))) == (2, 4)

    def test_older_code_is_counted(self) -> None:
        ledger = past(a=done(("2013-01-01", "2013-01-05"), codes={"a": 1, "older": 2, "oldest": 1}))
        assert planned(flow(A), ledger).older_code == {"a": 3}


def test_a_plan_is_the_same_json_each_time() -> None:
    ledger = past(a=done(("2013-01-01", "2013-01-04"), troubles={at("2013-01-04"): failed()}))
    found = planned(flow(A, B, snapshot("s")), ledger).to_dict()
    assert list(found) == [
        *("now", "next_due", "batches", "groups", "left_out", "older_code", "reported", "following", "behind"),
        *("queries", "paused", "paused_all", "partial", "refused", "held_restatements"),
    ]
    assert found["next_due"] == "2013-01-06T00:00:00Z"
    assert [batch["stands_from"] for batch in found["batches"] if batch["table"] == "s"] == ["0001-01-01T00:00:00Z"]
    assert (
        found["batches"][-1]
        == {
            "table": "b",
            "label": "20130104000000",
            "end": "2013-01-05T00:00:00Z",
            "status": "blocked",
            "reason": "blocked by a@20130104000000, failed: boom",
            "is_revision": False,
            "verb": None,
            "choice": None,
            "stands_from": None,
            "reads": [
                {
                    "table": "a",
                    "read": "a",
                    "scope": "slices",
                    "low": "2013-01-04T00:00:00Z",
                    "high": "2013-01-05T00:00:00Z",
                }
            ],
            "causes": [{"table": "a", "label": "20130104000000", "status": "failed", "detail": "boom"}],
            "missing": [],
            "is_over_limit": False,
        }
        or found["batches"][-1]["table"] == "s"
    )


@pytest.mark.parametrize("length", [2, 1200])
def test_a_long_chain_of_tables_is_planned(length: int) -> None:
    chain = [A, *(transform(f"t{number:04}", [f"t{number - 1:04}" if number else "a"]) for number in range(length))]
    found = planned(flow(*chain))
    assert len(found.batches) == 4 * (length + 1)
    ledger = past(a=done(("2013-01-01", "2013-01-05")))
    assert {group.table for group in planned(flow(*chain), ledger).groups} == {"t0000"}


def test_the_order_of_a_flow_does_not_depend_on_how_it_is_written() -> None:
    found = planned(replace(flow(B, A), order=()))
    assert [batch.table for batch in found.batches][:1] == ["a"]


def test_until_of_months_offers_all_windows_of_the_end_of_a_month() -> None:
    hourly = replace(collect("hourly", "HOUR"), start=at("2013-01-01"))
    daily = replace(transform("t", [until("hourly", "1 month")]), start=at("2013-01-01"))
    ledger = past(hourly=done(("2013-01-01", "2013-02-28")), t=done(("2013-01-01", "2013-01-28")))
    found = planned(flow(hourly, daily), ledger, at("2013-02-28"))
    assert [label for label, state in states(found, "t").items() if state == "ready"] == ["01-28", "01-29", "01-30"]
    assert sorted(label for group in offered(found, "t") for label in group) == ["01-28", "01-29", "01-30"]


def test_the_newest_state_with_until_of_months_is_that_of_the_last_day_of_a_month() -> None:
    hourly = replace(collect("hourly", "HOUR"), start=at("2013-01-01"))
    state = replace(replace_transform("t", [until("hourly", "1 month")]), start=at("2013-01-01"))
    ledger = past(hourly=done(("2013-01-01", "2013-02-28")))
    assert offered(planned(flow(hourly, state), ledger, at("2013-02-28")), "t") == [["01-30"]]
