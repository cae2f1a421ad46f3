"""Late rows reopen closed windows up to a later tick; batches that were made without these rows are made again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledgers import Desk, day, table
from waterclock.batches.audit_records import REOPENED
from waterclock.batches.ledger_snapshot import (
    AT_LAST,
    BY_HAND,
    CONDITION,
    LATE_ROWS,
    RELEASE,
    REOPEN,
    BatchStatus,
    Closing,
)
from waterclock.flow.closings import Closes
from waterclock.ledger.ledger_errors import ClaimRefused
from waterclock.timelabel.window import Window

DAILY = replace(table("web.daily", partitioned=True), closes=Closes("closed_by_hand()", "FALSE"))


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    at_desk.apply(DAILY, table("web.daily_late", partitioned=True), table("web.u", partitioned=True))
    closed = [(day(number), Closing(day(number + 1), reason=CONDITION)) for number in range(3)]
    at_desk.ledger.decisions.close_books("web.daily", closed, who="a test")


def reopen(at_desk: Desk, ticks: dict[float, float], *, keep: tuple[float, ...] = ()) -> list[float]:
    found = at_desk.ledger.decisions.reopen(
        "web.daily",
        {day(label): day(tick) for label, tick in ticks.items()},
        late_tables=("web.daily_late",),
        keep=[day(label) for label in keep],
        who="a test",
        why="late rows",
    )
    return [(label - day(0)).days for label in found]


def window(label: float) -> Window:
    return Window(day(label), day(label + 1))


def requested(at_desk: Desk, name: str) -> dict[int, str]:
    found = at_desk.ledger.reads.snapshot(at_desk.flow).of(name).requested
    return {(label - day(0)).days: verb for label, verb in found.items()}


def closing(at_desk: Desk, label: float) -> Closing:
    return at_desk.ledger.reads.snapshot(at_desk.flow).of("web.daily").closings[day(label)]


def told(closing: Closing) -> tuple[object, ...]:
    return closing.tick, closing.first, closing.reason, closing.why


def test_a_window_is_opened_up_to_a_later_tick_and_made_again(at_desk: Desk) -> None:
    at_desk.done("web.daily", 0)
    assert reopen(at_desk, {0: 3, 1: 4}) == [0, 1]
    assert requested(at_desk, "web.daily") == {0: REOPEN}  # batches that are not made yet use the later tick anyway
    assert told(closing(at_desk, 0)) == (day(3), day(1), LATE_ROWS, "late rows")
    assert reopen(at_desk, {0: 5}) == [0]
    assert told(closing(at_desk, 0)) == (day(5), day(1), LATE_ROWS, "late rows")
    kinds = [event.kind for event in at_desk.ledger.past.audit("web.daily", day(0)).events]
    assert kinds.count(REOPENED) == 2


def test_a_window_that_was_closed_without_its_condition_stays_partial(at_desk: Desk) -> None:
    at_last = [(day(3), Closing(day(4), reason=AT_LAST))]
    at_desk.ledger.decisions.close_books("web.daily", at_last, who="a test")
    for tick in (5, 6):
        assert reopen(at_desk, {3: tick}) == [3]
        assert told(closing(at_desk, 3)) == (day(tick), day(4), AT_LAST, "late rows")


def test_a_window_that_reaches_as_far_or_is_open_stays_as_it_is(at_desk: Desk) -> None:
    at_desk.done("web.daily", 0)
    assert reopen(at_desk, {0: 1, 7: 9}) == []
    assert requested(at_desk, "web.daily") == {}


def test_nonempty_late_batches_between_the_old_and_the_new_tick_are_requested_again(at_desk: Desk) -> None:
    for label, rows in ((0, 1), (1, 1), (2, 0), (3, 1), (4, 1)):
        at_desk.done("web.daily_late", label, digest=f"{rows}:2:3")
    reopen(at_desk, {0: 4}, keep=(3,))
    assert requested(at_desk, "web.daily_late") == {1: REOPEN}


def test_a_claim_that_was_planned_before_is_refused(at_desk: Desk) -> None:
    planned = replace(at_desk.request("web.daily", 0), closed={day(0): day(1)})
    reopen(at_desk, {0: 3})
    with pytest.raises(ClaimRefused) as refused:
        at_desk.ledger.claims.take(planned)
    assert (refused.value.code, refused.value.transient) == ("E456", True)
    at_desk.ledger.claims.take(replace(planned, closed={day(0): day(3)}))


def test_a_batch_that_is_being_made_is_made_once_more(at_desk: Desk) -> None:
    held = at_desk.claim("web.daily", 0)
    reopen(at_desk, {0: 3})
    at_desk.done("web.daily", 0, claim=held)
    assert requested(at_desk, "web.daily") == {0: REOPEN}


@pytest.mark.parametrize("verb", [REOPEN, "recompute"])
def test_one_that_is_being_made_again_is_made_once_more(at_desk: Desk, verb: str) -> None:
    at_desk.done("web.daily", 0)
    if verb == REOPEN:
        reopen(at_desk, {0: 2})
    else:
        at_desk.ledger.decisions.request_restate("web.daily", [day(0)], verb, who="ann")
    held = at_desk.claim("web.daily", 0)
    reopen(at_desk, {0: 3})  # its claim reads up to the earlier tick
    at_desk.done("web.daily", 0, claim=held)
    assert requested(at_desk, "web.daily") == {0: verb}
    at_desk.done("web.daily", 0)
    assert requested(at_desk, "web.daily") == {}


def test_a_running_recompute_of_late_rows_is_followed_by_another_one_after_a_reopening(at_desk: Desk) -> None:
    at_desk.done("web.daily_late", 1)
    at_desk.ledger.decisions.request_restate("web.daily_late", [day(1)], "recompute", who="ann")
    held = at_desk.claim("web.daily_late", 1)
    reopen(at_desk, {0: 3})
    at_desk.done("web.daily_late", 1, claim=held)
    assert requested(at_desk, "web.daily_late") == {1: REOPEN}


@pytest.mark.parametrize("name", ["web.daily", "web.daily_late"])
@pytest.mark.parametrize("is_asked_before", [True, False])
def test_a_reopening_request_remains_if_a_recompute_request_is_withdrawn(
    at_desk: Desk, name: str, *, is_asked_before: bool
) -> None:
    label = 0 if name == "web.daily" else 1
    at_desk.done("web.u", 0, 1, 2)
    at_desk.done(name, label, reads={label: [at_desk.read("web.u", 0, 1, read="UNTIL(web.u, '1 DAY')")]})
    for is_turn in (is_asked_before, not is_asked_before):
        if is_turn:
            at_desk.ledger.decisions.request_restate(name, [day(label)], "recompute", who="ann")
        else:
            reopen(at_desk, {0: 3})
    at_desk.ledger.decisions.withdraw(name, [day(label)], who="ann")
    assert requested(at_desk, name) == {label: REOPEN}
    at_desk.done(name, label, reads={label: [at_desk.read("web.u", 0, 3, read="UNTIL(web.u, '1 DAY')")]})
    at_desk.ledger.decisions.request_restate(name, [day(label)], "recompute", who="ann")
    assert requested(at_desk, name) == {label: "recompute"}
    at_desk.ledger.decisions.withdraw(name, [day(label)], who="ann")
    assert requested(at_desk, name) == {}


@pytest.mark.parametrize("is_asked_before", [True, False])
def test_a_reopening_request_remains_if_a_skip_request_is_withdrawn(at_desk: Desk, *, is_asked_before: bool) -> None:
    at_desk.done("web.daily_late", 1)
    for is_turn in (is_asked_before, not is_asked_before):
        if is_turn:
            at_desk.ledger.decisions.request_restate("web.daily_late", [day(1)], "skip", who="ann")
        else:
            reopen(at_desk, {0: 3})
    at_desk.ledger.decisions.withdraw("web.daily_late", [day(1)], is_of_late_rows=True, who="ann")
    assert requested(at_desk, "web.daily_late") == {1: REOPEN}


def test_retrying_a_skipped_closed_window_requests_its_late_rows_again(at_desk: Desk) -> None:
    late = ("web.daily_late",)
    at_desk.ledger.decisions.skip("web.daily", [window(0), window(5)], who="ann", why="b")
    for label in (0, 1, 2):
        at_desk.done("web.daily_late", label, digest="0:0:0")  # while the label is skipped, none of its rows is late
    at_desk.ledger.decisions.retry("web.daily", [day(5)], late_tables=late, who="ann")  # its books were never closed
    assert requested(at_desk, "web.daily_late") == {}
    at_desk.ledger.decisions.retry("web.daily", [day(0)], late_tables=late, who="ann")
    assert requested(at_desk, "web.daily_late") == {1: REOPEN, 2: REOPEN}


def test_slices_before_the_first_checked_window_are_later_than_no_closed_window(at_desk: Desk) -> None:
    at_desk.ledger.decisions.close_books("web.half", [(day(9), Closing(day(10), reason=CONDITION))], who="a test")
    found = at_desk.ledger.reads.read_closed_since("web.half", day(2), day(3))
    assert (found.first, found.closed) == (day(9), frozenset())


def test_the_request_of_late_rows_is_not_taken_back(at_desk: Desk) -> None:
    at_desk.done("web.daily", 0)
    reopen(at_desk, {0: 3})
    assert at_desk.ledger.decisions.withdraw("web.daily", [day(0)], who="ann") == ()
    assert requested(at_desk, "web.daily") == {0: REOPEN}


def test_late_rows_collected_before_a_window_was_closed_are_requested_again(at_desk: Desk) -> None:
    for label in (4, 5, 6):
        at_desk.done("web.daily_late", label, digest="0:0:0")
    late = ("web.daily_late",)
    at_desk.ledger.decisions.close_by_hand("web.daily", day(3), day(6), late_tables=late, who="ann", why="b")
    assert closing(at_desk, 3).reason == BY_HAND
    assert requested(at_desk, "web.daily_late") == {6: REOPEN}
    # another condition may be true at a boundary that was checked before
    found = [(day(4), Closing(day(5), reason=CONDITION))]
    assert at_desk.ledger.decisions.close_books("web.daily", found, late_tables=late, who="a test")
    assert requested(at_desk, "web.daily_late") == {5: REOPEN, 6: REOPEN}


def test_a_reopened_window_keeps_its_tick_if_another_runner_closes_it_earlier(at_desk: Desk) -> None:
    reopen(at_desk, {0: 3})
    again = [(day(0), Closing(day(1), reason=CONDITION)), (day(3), Closing(day(4), reason=CONDITION))]
    assert at_desk.ledger.decisions.close_books("web.daily", again, who="another")
    assert closing(at_desk, 0).tick == day(3)
    assert closing(at_desk, 3).tick == day(4)


def test_windows_closed_since_an_interval_are_read_with_their_ticks(at_desk: Desk) -> None:
    at_desk.done("web.daily", 0)
    reopen(at_desk, {0: 6})
    found = at_desk.ledger.reads.read_closed_since("web.daily", day(2), day(9))
    assert found.first == day(0)
    assert found.covered.covers_instant(day(0))
    assert found.closed == {day(1), day(2)}
    assert found.later == {day(0): day(6), day(2): day(3)}
    assert found.skipped == frozenset()


def hold(at_desk: Desk, label: float) -> None:
    claim = at_desk.claim("web.daily", label)
    at_desk.ledger.claims.record_failed(claim, error="E755 held", is_transient=False, status=BatchStatus.HELD)


@pytest.mark.parametrize(
    ("before", "after"), [(None, REOPEN), ("recompute", "recompute"), ("recollect", "recollect"), ("skip", "skip")]
)
def test_late_rows_replace_a_requested_release_by_a_request_to_make_the_batch_again(
    at_desk: Desk, before: str | None, after: str
) -> None:
    """The held rows do not contain the late rows; an earlier request with a larger effect stays."""
    at_desk.done("web.daily", 0)
    at_desk.ledger.decisions.request_restate("web.daily", [day(0)], before or "recompute", who="ann")
    hold(at_desk, 0)
    if before is None:
        at_desk.ledger.decisions.withdraw("web.daily", [day(0)], who="ann")
        at_desk.ledger.decisions.request_restate("web.daily", [day(0)], "follow", who="ann")
        hold(at_desk, 0)
    at_desk.ledger.decisions.request_release("web.daily", [day(0)], who="ann", why="it is right")
    assert requested(at_desk, "web.daily") == {0: RELEASE}
    reopen(at_desk, {0: 3})
    assert requested(at_desk, "web.daily") == {0: after}


def test_late_rows_cancel_a_requested_release_of_a_batch_that_was_never_done(at_desk: Desk) -> None:
    hold(at_desk, 1)
    at_desk.ledger.decisions.request_release("web.daily", [day(1)], who="ann", why="it is right")
    reopen(at_desk, {1: 3})
    facts = at_desk.ledger.reads.snapshot(at_desk.flow).of("web.daily")
    assert facts.requested == {}
    assert facts.troubles[day(1)].status is BatchStatus.HELD


def test_late_rows_whose_release_was_requested_are_requested_again(at_desk: Desk) -> None:
    at_desk.done("web.daily_late", 1, digest="1:2:3")
    at_desk.ledger.decisions.request_restate("web.daily_late", [day(1)], "recompute", who="ann")
    claim = at_desk.claim("web.daily_late", 1)
    at_desk.ledger.claims.record_failed(claim, error="E755 held", is_transient=False, status=BatchStatus.HELD)
    at_desk.ledger.decisions.request_release("web.daily_late", [day(1)], who="ann", why="it is right")
    reopen(at_desk, {0: 3})
    assert requested(at_desk, "web.daily_late") == {1: REOPEN}


def test_a_window_that_fails_once_it_is_reopened_can_be_skipped(at_desk: Desk) -> None:
    claim = at_desk.claim("web.daily", 0)
    assert reopen(at_desk, {0: 3}) == [0]
    at_desk.ledger.claims.record_failed(claim, error="boom", is_transient=False)
    at_desk.ledger.decisions.skip("web.daily", [window(0)], who="ann", why="no one needs it")
    assert requested(at_desk, "web.daily") == {}, "its readers would wait for a batch that no run can make"
    assert at_desk.ledger.decisions.retry("web.daily", [day(0)], who="ann") == (day(0),)
    assert at_desk.claim("web.daily", 0).request.labels == (day(0),)
