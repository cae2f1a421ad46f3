from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.ledgers import ZERO, Desk, day, flow, result, table
from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.batches.records import Claim
from waterclock.flow.enums import Kind
from waterclock.ledger.ledger_errors import ClaimClosed, ClaimRefused
from waterclock.timelabel.window import Window


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    out = table("out.a", partitioned=True, kind=Kind.PUBLISH, reads=["raw.a"])
    at_desk.apply(table("raw.a", partitioned=True), table("raw.b"), table("core.c", reads=["raw.a"]), out)


def refusal(at_desk: Desk, name: str, *labels: float, **more: object) -> ClaimRefused:
    with pytest.raises(ClaimRefused) as refused:
        at_desk.claim(name, *labels, **more)  # type: ignore[arg-type]  # any field of the request
    return refused.value


def test_numbers_rise_above_the_clock_and_above_each_other(at_desk: Desk) -> None:
    first, second = at_desk.claim("raw.a", 0), at_desk.claim("raw.a", 1)
    at_desk.clock.pass_by(hours=-5)
    third = at_desk.claim("raw.a", 2)
    milliseconds = int((at_desk.clock.at + timedelta(hours=5)).timestamp() * 1000)
    assert [first.number, second.number, third.number] == [milliseconds, milliseconds + 1, milliseconds + 2]


def test_a_refused_claim_uses_no_number_and_leaves_no_trace(at_desk: Desk) -> None:
    at_desk.claim("raw.b", 0)
    before = at_desk.ledger.sequence()
    refusal(at_desk, "raw.b", 1)
    assert at_desk.ledger.sequence() == before
    assert [cell.label for cell in at_desk.ledger.past.grid(["raw.b"])] == [day(0)]


def test_a_regular_table_has_one_open_claim(at_desk: Desk) -> None:
    held = at_desk.claim("raw.b", 0, runner="p")
    refused = refusal(at_desk, "raw.b", 1, runner="u")
    assert (refused.code, refused.transient) == ("E407", True)
    assert "claimed by p" in str(refused)
    assert f"claim {held.number} of 20130101000000 is open" in str(refused.why)


def test_a_partitioned_table_has_one_open_claim_a_label(at_desk: Desk) -> None:
    at_desk.claim("raw.a", 0, 1)
    at_desk.claim("raw.a", 2, 3)
    refused = refusal(at_desk, "raw.a", 3, 4)
    assert refused.code == "E407"
    assert refused.where == "raw.a@20130104000000"
    assert "of 20130103000000, 20130104000000 is open" in str(refused.why)
    at_desk.claim("raw.a", 4)


def test_a_publish_has_one_open_claim_also_where_each_label_is_delivered(at_desk: Desk) -> None:
    """A MERGE restores older rows of lost keys as they were delivered before.

    So no other delivery may be in between.
    """
    at_desk.claim("out.a", 1, runner="p")
    refused = refusal(at_desk, "out.a", 0, runner="u")
    assert (refused.code, refused.transient) == ("E407", True)
    assert "claimed by p" in str(refused)


def test_a_done_label_is_not_claimed_again(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    assert refusal(at_desk, "raw.a", 0).code == "E408"


def test_a_done_label_is_claimed_when_requested_suspect_or_for_a_reason(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, 1)
    at_desk.done("core.c", 0, reads={0: [at_desk.read("raw.a", 0, 1)]})
    at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recompute", who="ann")
    at_desk.done("raw.a", 0, digest="2:2:2")
    at_desk.done("core.c", 0, reads={0: [at_desk.read("raw.a", 0, 1)]})
    at_desk.done("raw.a", 1, restates="late rows")
    assert refusal(at_desk, "core.c", 0).code == "E408"


def test_a_skipped_label_is_not_claimed(at_desk: Desk) -> None:
    window = at_desk.flow.tables["raw.a"].cadence.window_of(day(0))
    at_desk.ledger.decisions.skip("raw.a", [window], who="ann", why="no data")
    assert refusal(at_desk, "raw.a", 0).code == "E409"


def test_a_runner_with_another_flow_claims_nothing(at_desk: Desk) -> None:
    at_desk.ledger.declared.apply(flow(table("raw.b"), fingerprint="flow 2"), who="bob", now=ZERO, runner="there")
    refused = refusal(at_desk, "raw.b", 0)
    assert (refused.code, refused.transient) == ("E406", False)


def test_an_unknown_table_is_refused(at_desk: Desk) -> None:
    with pytest.raises(Exception, match=r"no table raw\.q") as refused:
        at_desk.claim("raw.q", 0)
    assert getattr(refused.value, "code", None) == "E412"


def test_a_claim_whose_inputs_changed_since_they_were_pinned_is_refused(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    pinned = at_desk.read("raw.a", 0, 1)
    at_desk.done("raw.a", 0, digest="5:5:5", restates="late rows")
    refused = refusal(at_desk, "core.c", 0, reads={0: [pinned]})
    assert (refused.code, refused.transient) == ("E410", True)
    at_desk.claim("core.c", 0, reads={0: [at_desk.read("raw.a", 0, 1)]})


def test_a_change_elsewhere_in_a_read_table_refuses_nothing(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    pinned = at_desk.read("raw.a", 0, 1)
    at_desk.done("raw.a", 1)
    at_desk.claim("core.c", 0, reads={0: [pinned]})


def test_inputs_without_a_count_of_changes_are_compared_by_content(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    pinned = replace(at_desk.read("raw.a", 0, 1), changes=None)
    at_desk.claim("core.c", 0, reads={0: [replace(pinned, content=pinned.content)]})
    assert refusal(at_desk, "raw.b", 0, reads={0: [replace(pinned, content="1.1")]}).code == "E410"


def test_inputs_of_tables_outside_the_ledger_are_taken_as_given(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    outside = replace(at_desk.read("raw.a", 0, 1), table="other.t", content="as told")
    held = at_desk.claim("raw.b", 0, reads={0: [outside]})
    assert at_desk.ledger.claims.open()[0].request.inputs == {day(0): (replace(outside, changes=None),)}
    at_desk.done("raw.b", 0, claim=held)


def expired_at(at_desk: Desk) -> list[Claim]:
    return [claim for claim in at_desk.ledger.claims.open() if claim.has_expired(at_desk.ledger.now())]


def test_a_lease_from_before_the_clock_was_set_back_runs_out_unless_it_is_renewed(at_desk: Desk) -> None:
    """A dead runner would keep its labels until the clock has passed the earlier time again."""
    held = at_desk.claim("raw.b", 0, lease_seconds=60)
    at_desk.clock.pass_by(seconds=-30)
    assert expired_at(at_desk) == []
    at_desk.clock.pass_by(hours=-2)
    assert [each.number for each in expired_at(at_desk)] == [held.number]
    at_desk.ledger.claims.renew(held)
    assert expired_at(at_desk) == []
    at_desk.clock.pass_by(seconds=61)
    assert [each.number for each in expired_at(at_desk)] == [held.number]


def test_a_lease_runs_out_by_the_real_clock_and_can_be_renewed(at_desk: Desk) -> None:
    held = at_desk.claim("raw.b", 0, lease_seconds=60)
    at_desk.clock.pass_by(seconds=59)
    assert expired_at(at_desk) == []
    held = at_desk.ledger.claims.renew(held)
    at_desk.clock.pass_by(seconds=59)
    assert expired_at(at_desk) == []
    at_desk.clock.pass_by(seconds=2)
    [expired] = expired_at(at_desk)
    assert (expired.number, expired.lease_until) == (held.number, held.lease_until)
    assert expired.request.labels == held.request.labels


def test_an_expired_claim_contains_the_whole_request_for_its_takeover(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    pinned = at_desk.read("raw.a", 0, 1)
    held = at_desk.claim("core.c", 0, reads={0: [pinned]}, target_version=7, run="r1")
    at_desk.clock.pass_by(hours=1)
    [expired] = expired_at(at_desk)
    assert expired.request == replace(held.request, inputs={day(0): (replace(pinned, changes=None),)})


def test_a_lost_claim_gives_its_labels_back_as_they_were(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    failed = at_desk.claim("raw.a", 1)
    at_desk.ledger.claims.record_failed(failed, error="no disk", is_transient=True)
    at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recompute", who="ann")
    held = at_desk.claim("raw.a", 0, 1, 2)
    at_desk.ledger.claims.close_lost(held, "the lease ran out")
    cells = {cell.label: cell for cell in at_desk.ledger.past.grid(["raw.a"])}
    assert [cells[day(n)].status for n in range(3)] == ["done", "failed", None]
    assert [cells[day(n)].attempts for n in range(3)] == [1, 2, 1]
    assert cells[day(1)].error == "no disk"
    assert cells[day(0)].requested == "recompute"
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").troubles.keys() == {day(1)}
    at_desk.claim("raw.a", 0, 1, 2)


@pytest.mark.parametrize("ending", ["done", "failed", "lost"])
def test_a_closed_claim_is_closed_for_everything(at_desk: Desk, ending: str) -> None:
    held = at_desk.claim("raw.b", 0)
    if ending == "done":
        at_desk.ledger.claims.record_done(held, [result(0)])
    elif ending == "failed":
        at_desk.ledger.claims.record_failed(held, error="no", is_transient=False)
    else:
        at_desk.ledger.claims.close_lost(held, "taken over")
    before = at_desk.ledger.sequence()
    for late in (
        lambda: at_desk.ledger.claims.renew(held),
        lambda: at_desk.ledger.claims.record_done(held, [result(0)]),
        lambda: at_desk.ledger.claims.record_failed(held, error="x", is_transient=True),
        lambda: at_desk.ledger.claims.close_lost(held, "again"),
    ):
        with pytest.raises(ClaimClosed, match=f"no longer open: {ending}") as refused:
            late()
        assert (refused.value.code, refused.value.transient) == ("E411", False)
    assert at_desk.ledger.sequence() == before


def test_a_failed_batch_keeps_its_error_and_counts_its_attempts(at_desk: Desk) -> None:
    for number in (1, 2):
        held = at_desk.claim("raw.b", 0)
        at_desk.ledger.claims.record_failed(held, error=f"try {number}", is_transient=True, due_again=day(number))
        trouble = at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.b").troubles[day(0)]
        assert (trouble.status, trouble.attempts, trouble.error) == (BatchStatus.FAILED, number, f"try {number}")
        assert (trouble.is_transient, trouble.due_again, trouble.claim) == (True, day(number), held.number)
    at_desk.done("raw.b", 0)
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.b").troubles == {}
    assert at_desk.ledger.past.grid(["raw.b"])[0].attempts == 3


def test_a_held_batch_is_distinguished_from_a_failed_one(at_desk: Desk) -> None:
    held = at_desk.claim("raw.b", 0)
    at_desk.ledger.claims.record_failed(held, error="count(*) > 0", is_transient=False, status=BatchStatus.HELD)
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.b").troubles[day(0)].status is BatchStatus.HELD


def test_a_failed_restatement_leaves_the_batch_readable(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, digest="7:7:7")
    at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recollect", who="ann")
    at_desk.ledger.claims.record_failed(at_desk.claim("raw.a", 0), error="gone", is_transient=False)
    facts = at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a")
    assert facts.covered.covers(day(0), day(1))
    assert facts.requested == {day(0): "recollect"}
    assert set(facts.troubles) == {day(0)}
    assert [piece.digest for piece in at_desk.ledger.reads.slices("raw.a", day(0), day(1))] == ["7:7:7"]


def test_refusals_survive_a_process_boundary(at_desk: Desk) -> None:
    at_desk.claim("raw.b", 0)
    refused = pickle.loads(pickle.dumps(refusal(at_desk, "raw.b", 0)))
    assert (type(refused), refused.code, refused.transient) == (ClaimRefused, "E407", True)


def owned(number: int) -> dict[str, object]:
    return {"name": f"positions {number}", "positions": {"of": "log", "parts": {"0": [number, number + 1]}}}


def test_items_owned_by_a_label_remain_its_own_whatever_the_end_of_the_claim(at_desk: Desk) -> None:
    span = ("positions 0", "positions 9")
    first = at_desk.claim("raw.a", 0, owned={day(0): (owned(1),)})
    assert at_desk.ledger.reads.owned_items("raw.a", [day(0), day(1)], span) == (
        {day(0): (owned(1),)},
        (day(0), owned(1)),
    )
    at_desk.ledger.claims.close_lost(first, why="a test")
    refused = refusal(at_desk, "raw.a", 1, owned={day(1): (owned(1),)})
    assert (refused.code, refused.transient) == ("E850", True)
    again = at_desk.claim("raw.a", 0, owned={day(0): (owned(1),)})
    found = replace(result(0), source={"items": [owned(1)]})
    at_desk.ledger.claims.record_done(again, [found])
    at_desk.claim("raw.a", 1, owned={day(1): (owned(2),)})
    assert at_desk.ledger.reads.owned_items("raw.a", [day(0)], span) == ({day(0): (owned(1),)}, (day(1), owned(2)))


def test_the_ranges_around_labels_are_found_whoever_owns_them(at_desk: Desk) -> None:
    span = ("positions 0", "positions 9")
    for number in (0, 1, 3, 5):
        at_desk.ledger.claims.close_lost(at_desk.claim("raw.a", number, owned={day(number): (owned(number),)}), why="")
    for labels, numbers in (((2,), (1, 3)), ((2, 4), (1, 3, 5)), ((3,), (1, 3, 5)), ((9,), (5,)), ((-1,), (0,))):
        found = at_desk.ledger.reads.items_around("raw.a", [day(label) for label in labels], span)
        assert found == [(day(number), owned(number)) for number in numbers]


def test_the_oldest_label_with_a_range_that_is_neither_done_nor_skipped_is_found(at_desk: Desk) -> None:
    span = ("positions 0", "positions 9")
    assert at_desk.ledger.reads.oldest_open_owner("raw.a", span) is None
    for number in (0, 1, 2):
        claim = at_desk.claim("raw.a", number, owned={day(number): (owned(number),)})
        if number == 0:
            at_desk.ledger.claims.record_done(claim, [replace(result(0), source={"items": [owned(0)]})])
        else:
            at_desk.ledger.claims.record_failed(claim, error="E799", is_transient=False)
    assert at_desk.ledger.reads.oldest_open_owner("raw.a", span) == day(1)
    at_desk.ledger.decisions.skip("raw.a", [Window(day(1), day(2))], who="ann", why="broken")
    assert at_desk.ledger.reads.oldest_open_owner("raw.a", span) == day(2)
