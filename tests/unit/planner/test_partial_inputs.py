"""PARTIAL AFTER: inputs that a batch may omit, inputs it always waits for, and when it is completed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tests.model.flows import at, collect, flow, merge_transform, snapshot, transform, until
from tests.unit.planner.pasts import done, failed, offered, past, read_then, reason, running, states
from waterclock.batches.ledger_snapshot import BatchStatus, InputFact, LedgerSnapshot, Missing, Pause, TableFacts
from waterclock.flow.closings import Closes
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Mode
from waterclock.planner.plan import Batch, Plan
from waterclock.planner.planning import Planner, plan
from waterclock.planner.request import PlanRequest
from waterclock.timelabel.duration import Duration

NOW = at("2013-01-02 02:00")
HOURLY = replace(collect("hourly", "6 HOURS"), start=at("2013-01-01"))
MERGED = replace(collect("merged", mode=Mode.MERGE, is_partitioned=False), start=at("2012-12-30"))
LAST = at("2013-01-01 18:00")
HELD_UP = done(("2013-01-01", "2013-01-01 18:00"), troubles={LAST: failed()})
LACKS = (Missing("hourly", LAST, at("2013-01-02")),)


def impatient(*reads: str, hours: int = 2) -> Table:
    return replace(transform("t", [*reads]), start=at("2013-01-01"), partial_after=Duration(hours, "HOUR"))


def planned(tables: Flow, ledger: LedgerSnapshot, now: datetime = NOW) -> Plan:
    """Return the plan; assert that the shortcut to the groups gives the same groups."""
    found = plan(tables, ledger, now)
    assert Planner(tables).ready(ledger, now) == found.groups
    return found


def batch(found: Plan) -> Batch:
    return next(batch for batch in found.batches if batch.table == "t")


def test_unsettled_inputs_are_left_out_once_the_wait_is_over() -> None:
    tables = flow(HOURLY, impatient("hourly"))
    early = planned(tables, past(hourly=HELD_UP), at("2013-01-02 01:59"))
    assert (states(early, "t"), early.next_due) == ({"01-01": "blocked"}, NOW)
    found = planned(tables, past(hourly=HELD_UP))
    assert [(read.low, read.high) for read in batch(found).reads] == [(at("2013-01-01"), LAST)]
    assert (batch(found).status, batch(found).missing) == ("ready", LACKS)
    assert reason(found, "t", "2013-01-01") == "due, partial: without hourly 20130101180000..20130102000000"


def test_a_wait_of_months_ends_for_all_windows_of_the_end_of_a_month() -> None:
    table = replace(impatient("hourly"), partial_after=Duration(1, "MONTH"))
    hours = done(("2013-01-01", "2013-01-30 18:00"), troubles={at("2013-01-30 18:00"): failed()})
    ledger = past(hourly=hours, t=done(("2013-01-01", "2013-01-30")))
    found = planned(flow(HOURLY, table), ledger, at("2013-02-28"))
    assert states(found, "t")["01-30"] == "ready"
    assert offered(found, "t") == [["01-30"]]


def test_only_a_gap_between_settled_inputs_is_left_out() -> None:
    troubled = done(
        ("2013-01-01", "2013-01-01 06:00"), ("2013-01-01 12:00", "2013-01-02"),
        troubles={at("2013-01-01 06:00"): failed()},
    )  # fmt: skip
    found = batch(planned(flow(HOURLY, impatient("hourly")), past(hourly=troubled)))
    spans = [(f"{read.low:%H}", f"{read.high:%H}") for read in found.reads]
    assert spans == [("00", "06"), ("12", "00")]
    assert found.missing == (Missing("hourly", at("2013-01-01 06:00"), at("2013-01-01 12:00")),)


def test_of_a_state_the_newest_before_the_gap_is_read() -> None:
    ledger = past(merged=done(("2012-12-30", "2013-01-01"), troubles={at("2013-01-01"): failed()}))
    found = batch(planned(flow(MERGED, impatient("merged")), ledger))
    assert [(read.low, read.high) for read in found.reads] == [(at("2012-12-30"), at("2013-01-01"))]
    assert found.missing == (Missing("merged", at("2013-01-01"), at("2013-01-02")),)


def test_inputs_that_are_ready_or_running_are_waited_for() -> None:
    tables = flow(HOURLY, impatient("hourly"))
    for facts in (
        done(("2013-01-01", "2013-01-01 18:00")),
        replace(HELD_UP, troubles={}, open_claims=(running("2013-01-01 18:00"),)),
    ):
        assert states(planned(tables, past(hourly=facts)), "t") == {"01-01": "waiting"}


def test_waiting_inputs_are_waited_for_but_blocked_ones_are_not() -> None:
    middle = replace(transform("middle", ["hourly"], "6 HOURS"), start=at("2013-01-01"))
    tables = flow(HOURLY, middle, impatient("middle"))
    made = done(("2013-01-01", "2013-01-01 18:00"))
    assert states(planned(tables, past(hourly=made, middle=made)), "t") == {"01-01": "waiting"}
    assert states(planned(tables, past(hourly=HELD_UP, middle=made)), "t") == {"01-01": "ready"}


def test_a_batch_is_made_without_paused_inputs() -> None:
    paused = done(("2013-01-01", "2013-01-01 18:00"), paused=Pause(NOW, "ann", "it lies"))
    assert batch(planned(flow(HOURLY, impatient("hourly")), past(hourly=paused))).missing == LACKS


def test_a_table_without_columns_is_waited_for() -> None:
    nothing = TableFacts(troubles={at("2013-01-01"): failed()})
    other = replace(collect("other"), start=at("2013-01-01"))
    tables = flow(HOURLY, other, impatient("hourly", "other"))
    found = planned(tables, past(hourly=done(("2013-01-01", "2013-01-02")), other=nothing))
    assert states(found, "t") == {"01-01": "blocked"}


def test_a_partial_batch_is_settled_until_the_rest_is_and_is_made_whole_then() -> None:
    reader = replace(transform("r", ["t"]), start=at("2013-01-01"))
    tables = flow(HOURLY, impatient("hourly"), reader)
    partial = done(("2013-01-01", "2013-01-02"), partial={at("2013-01-01"): LACKS})
    found = planned(tables, past(hourly=HELD_UP, t=partial))
    assert (states(found, "t"), states(found, "r")) == ({}, {"01-01": "ready"})
    assert found.partial == {"t": {at("2013-01-01"): LACKS}}
    whole = planned(tables, past(hourly=done(("2013-01-01", "2013-01-02")), t=partial))
    assert (states(whole, "t"), states(whole, "r")) == ({"01-01": "ready"}, {"01-01": "waiting"})
    said = "made without hourly 20130101180000..20130102000000, which has arrived"
    assert (reason(whole, "t", "2013-01-01"), batch(whole).missing) == (said, ())


def test_a_state_follows_a_partial_batch_whose_missing_window_is_still_open() -> None:
    """CLOSE WHEN may leave the books of a window open for a long time."""
    by_hand = Closes("closed_by_hand()", "FALSE", is_by_hand=True, is_asked=False)
    books = replace(transform("books", [until("hourly", "6 HOURS")]), start=at("2013-01-01"), closes=by_hand)
    state = replace(transform("state", ["t"], mode=Mode.REPLACE, is_partitioned=False), start=at("2013-01-01"))
    tables = flow(HOURLY, books, impatient("books"), state)
    lacks = {at("2013-01-01"): (Missing("books", at("2013-01-01"), at("2013-01-02")),)}
    ledger = past(hourly=done(("2013-01-01", "2013-01-02")), t=done(("2013-01-01", "2013-01-02"), partial=lacks))
    assert states(planned(tables, ledger), "state") == {"01-01": "ready"}


def test_a_requested_partial_batch_is_made_again_without_the_inputs_still_missing() -> None:
    tables = flow(HOURLY, MERGED, impatient("hourly"))
    partial = {at("2013-01-01"): LACKS}
    asked = done(("2013-01-01", "2013-01-02"), partial=partial, requested={at("2013-01-01"): "recompute"})
    found = batch(planned(tables, past(hourly=HELD_UP, t=asked)))
    assert (found.status, found.missing, found.is_revision) == ("ready", LACKS, True)


def test_a_requested_complete_batch_waits_for_its_inputs_and_keeps_its_rows() -> None:
    tables = flow(HOURLY, MERGED, impatient("hourly"))
    asked = done(("2013-01-01", "2013-01-02"), requested={at("2013-01-01"): "recompute"})
    found = planned(tables, past(hourly=HELD_UP, t=asked))
    assert (states(found, "t"), batch(found).missing) == ({"01-01": "blocked"}, ())


def test_a_batch_is_blocked_if_the_state_that_it_reads_does_not_exist() -> None:
    merged = merge_transform("m", ["hourly"])
    tables = flow(HOURLY, replace(merged, start=at("2013-01-01")), impatient("m"))
    assert states(planned(tables, past(hourly=HELD_UP, m=TableFacts())), "t") == {"01-01": "blocked"}


def test_an_input_claimed_by_another_runner_is_waited_for_even_if_not_selected() -> None:
    tables, only = flow(HOURLY, impatient("hourly")), PlanRequest(only={"t"})
    made = done(("2013-01-01", "2013-01-01 18:00"), open_claims=(running("2013-01-01 18:00"),))
    assert not Planner(tables).plan(past(hourly=made), NOW, only).groups
    left = done(("2013-01-01", "2013-01-01 18:00"))
    assert Planner(tables).plan(past(hourly=left), NOW, only).groups


def test_a_ready_input_after_many_failed_ones_is_waited_for() -> None:
    minutes = replace(collect("hourly", "MINUTE"), start=at("2013-01-01"))
    half = at("2013-01-01 12:00")
    many = {half + timedelta(minutes=minute): failed() for minute in range(300)}
    made = done(("2013-01-01", "2013-01-01 12:00"), troubles=many)
    assert states(planned(flow(minutes, impatient("hourly")), past(hourly=made)), "t") == {"01-01": "blocked"}


def test_inputs_that_need_many_steps_are_waited_for() -> None:
    steps = [replace(transform(f"s{n}", [f"s{n - 1}" if n else "hourly"]), start=at("2013-01-01")) for n in range(20)]
    tables = flow(HOURLY, *steps, impatient("s19"))
    known = {step.name: done(("2013-01-01", "2013-01-02")) for step in steps}
    made = past(hourly=done(("2013-01-01", "2013-01-02")), **known, t=done(("2013-01-01", "2013-01-02")))
    assert states(planned(tables, made, at("2013-01-03 05:00")), "t") == {"01-02": "waiting"}


def test_a_batch_is_made_without_a_failed_or_paused_snapshot() -> None:
    tables = flow(replace(snapshot("s"), start=at("2013-01-01")), impatient("s"))
    known, t = ("0001-01-01", "2013-01-02"), done(("2013-01-01", "2013-01-02"))
    for facts in (
        done(known, troubles={at("2013-01-02"): failed()}),
        done(known, paused=Pause(NOW, "ann", "it lies")),
    ):
        found = planned(tables, past(s=facts, t=t), at("2013-01-03 05:00"))
        assert batch(found).missing == (Missing("s", at("2013-01-02"), at("2013-01-03")),)
    assert states(planned(tables, past(s=done(known), t=t), at("2013-01-03 05:00")), "t") == {"01-02": "waiting"}


def test_a_batch_is_made_without_inputs_that_are_absent_from_the_source() -> None:
    tables, ledger = flow(HOURLY, impatient("hourly")), past(hourly=done(("2013-01-01", "2013-01-01 18:00")))
    found = Planner(tables).plan(ledger, NOW, PlanRequest(absent={"hourly": frozenset({LAST})}))
    assert batch(found).missing == LACKS


THERE = done(("2013-01-01", "2013-01-04"))


def test_a_partial_batch_with_inputs_dropped_by_retain_stays_partial_and_blocks_no_reader() -> None:
    other, reader = (
        replace(collect("other"), start=at("2013-01-01")),
        replace(transform("r", ["t"]), start=at("2013-01-01")),
    )
    tables, dropped = flow(HOURLY, other, impatient("hourly", "other"), reader), at("2013-01-03")
    read = (read_then("other", "2013-01-01", "2013-01-02", is_changed=False),)
    partial = replace(THERE, partial={at("2013-01-01"): LACKS}, suspects={at("2013-01-01"): read})
    for known in (
        {"hourly": THERE, "other": replace(THERE, dropped_before=dropped), "t": partial},
        {"hourly": replace(THERE, dropped_before=dropped), "other": THERE, "t": partial},
    ):
        found = planned(tables, past(**known), at("2013-01-04 05:00"))
        assert (states(found, "t"), found.partial) == ({}, {})
        assert states(found, "r") == {"01-01": "ready", "01-02": "ready", "01-03": "ready"}


def test_an_input_that_is_no_longer_read_is_no_longer_waited_for() -> None:
    read = (read_then("other", "2013-01-01", "2013-01-02", is_changed=True),)
    partial = done(("2013-01-01", "2013-01-02"), partial={at("2013-01-01"): LACKS}, suspects={at("2013-01-01"): read})
    other, whole = replace(collect("other"), start=at("2013-01-01")), done(("2013-01-01", "2013-01-02"))
    found = planned(flow(HOURLY, other, impatient("other")), past(hourly=HELD_UP, other=whole, t=partial))
    assert (reason(found, "t", "2013-01-01"), found.partial) == ("stale: other changed since", {})
    later = flow(replace(HOURLY, start=at("2013-01-02")), other, impatient("hourly", "other"))
    assert not planned(later, past(hourly=TableFacts(start=at("2013-01-02")), other=whole, t=partial)).partial
    held = planned(flow(HOURLY, other, impatient("hourly", "other")), past(hourly=HELD_UP, other=whole, t=partial))
    assert states(held, "t") == {}


def test_a_held_partial_batch_whose_rest_has_arrived_cannot_be_released() -> None:
    """A release would be refused: the batch would now read the missing inputs too."""
    tables = flow(HOURLY, impatient("hourly"))
    then = InputFact("hourly", at("2013-01-01"), LAST, "1", "1")
    held = replace(failed("E755 it is held", status=BatchStatus.HELD), read=(then,))
    ledger = past(hourly=HELD_UP, t=done(troubles={at("2013-01-01"): held}))
    assert (batch(planned(tables, ledger)).is_outdated, batch(planned(tables, ledger)).reason) == (
        False,
        "E755 it is held",
    )
    coming = past(hourly=done(("2013-01-01", "2013-01-01 18:00")), t=done(troubles={at("2013-01-01"): held}))
    assert not batch(planned(tables, coming)).is_outdated  # it is not known yet which rows arrive
    whole = past(hourly=done(("2013-01-01", "2013-01-02")), t=done(troubles={at("2013-01-01"): held}))
    found = batch(planned(tables, whole))
    assert (found.status, found.is_outdated) == ("held", True)
    assert found.reason == "E755 it is held; its inputs have changed since"


def test_a_partial_batch_waits_for_inputs_from_the_start_that_holds_now() -> None:
    middle, label = transform("middle", ["hourly"], "6 HOURS"), at("2013-01-01")
    lacks = (Missing("middle", LAST, at("2013-01-02")),)
    partial = done(("2013-01-01", "2013-01-02"), partial={label: lacks})
    made = done(("2013-01-01", "2013-01-02"))
    # `middle` once declared a START, which the ledger keeps
    earlier = replace(HELD_UP, troubles={}, start=at("2013-01-02"))
    tables = flow(HOURLY, middle, impatient("middle"))
    assert planned(tables, past(hourly=made, middle=earlier, t=partial)).partial == {"t": {label: lacks}}
    found = planned(tables, past(hourly=made, middle=replace(made, start=earlier.start), t=partial))
    assert states(found, "t") == {"01-01": "ready"}
    # its START follows the later one of `hourly`, so the ledger has no START for it
    later = flow(replace(HOURLY, start=at("2013-01-02")), middle, impatient("middle"))
    assert not planned(later, past(hourly=TableFacts(), middle=HELD_UP, t=partial)).partial
