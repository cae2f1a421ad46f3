"""Releases of held batches: a release counts once, for the rows that the user saw; else earlier requests count."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ledgers import Desk, day, result, table
from waterclock.batches.ledger_snapshot import BACKFILL, RELEASE, BatchStatus, TableFacts
from waterclock.ledger.ledger_errors import ClaimRefused
from waterclock.timelabel.window import Window


@pytest.fixture
def held(at_desk: Desk) -> Desk:
    """Return a desk with one held label that was never done, and a done one with a request to recollect it."""
    at_desk.apply(table("raw.a", partitioned=True))
    at_desk.done("raw.a", 0)
    at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recollect", who="ann")
    at_desk.ledger.decisions.request_backfill("raw.a", [day(1)], who="ann")
    for label in (0, 1):
        hold(at_desk, label)
    return at_desk


def hold(at: Desk, label: float) -> int:
    claim = at.claim("raw.a", label)
    at.ledger.claims.record_failed(claim, error="E755 held", is_transient=False, status=BatchStatus.HELD)
    return claim.number


def facts_of(at: Desk) -> TableFacts:
    return at.ledger.reads.snapshot(at.flow).of("raw.a")


@pytest.mark.parametrize("how", ["withdrawn", "refused"])
def test_requests_made_before_a_release_become_valid_again_if_it_is_withdrawn_or_refused(held: Desk, how: str) -> None:
    decisions, both = held.ledger.decisions, [day(0), day(1)]
    decisions.request_release("raw.a", both, who="ann", why="x")
    assert decisions.request_release("raw.a", both, who="bob", why="y") == tuple(both)
    assert facts_of(held).requested == dict.fromkeys(both, RELEASE)
    if how == "withdrawn":
        assert decisions.withdraw("raw.a", both, who="ann") == tuple(both)
    else:
        for label in both:
            decisions.refuse_release("raw.a", label, who="ann", why="it is gone")
    facts = facts_of(held)
    assert facts.requested == {day(0): "recollect"}
    assert facts.wanted == {day(1)}
    assert {label: it.status for label, it in facts.troubles.items()} == dict.fromkeys(both, BatchStatus.HELD)


def test_refusing_a_release_without_a_request_records_no_event(held: Desk) -> None:
    held.ledger.decisions.refuse_release("raw.a", day(0), who="ann", why="it is gone")
    assert held.ledger.past.audit("raw.a", day(0)).events[-1].kind == "held"


def test_a_retry_cancels_a_requested_release(held: Desk) -> None:
    both = [day(0), day(1)]
    held.ledger.decisions.request_release("raw.a", both, who="ann", why="x")
    held.ledger.decisions.retry("raw.a", both, who="bob")
    assert facts_of(held).requested == {day(0): "recollect"}
    assert facts_of(held).wanted == {day(1)}
    for label in (0, 1):
        hold(held, label)
    assert facts_of(held).requested == {day(0): "recollect"}
    assert facts_of(held).troubles.keys() == set(both)


def test_a_release_cancelled_by_a_skip_is_not_restored_by_a_retry(held: Desk) -> None:
    held.ledger.decisions.request_release("raw.a", [day(1)], who="ann", why="x")
    held.ledger.decisions.skip("raw.a", [Window(day(1), day(2))], who="bob", why="lost")
    held.ledger.decisions.retry("raw.a", [day(1)], who="bob")
    hold(held, 1)
    facts = facts_of(held)
    assert facts.requested == {day(0): "recollect"}
    assert facts.wanted == {day(1)}
    assert facts.troubles.keys() == {day(0), day(1)}


def test_a_stronger_request_replaces_a_release_and_the_earlier_request(held: Desk) -> None:
    held.ledger.decisions.request_release("raw.a", [day(0)], who="ann", why="x")
    assert held.ledger.decisions.request_restate("raw.a", [day(0)], "recompute", who="bob") == (day(0),)
    assert facts_of(held).requested == {day(0): "recollect"}


def test_a_batch_released_by_two_runners_becomes_visible_once(held: Desk) -> None:
    sealed = held.ledger.reads.held_labels("raw.a")
    told: dict[str, Any] = {"restates": "a held batch is released", "held": sealed}
    first = held.claim("raw.a", 1, **told)
    held.ledger.claims.record_done(first, [result(1)])
    with pytest.raises(ClaimRefused, match="cannot be released") as refused:
        held.claim("raw.a", 1, **told)
    assert (refused.value.code, refused.value.transient) == ("E756", True)


def test_a_release_of_an_older_held_claim_is_refused_after_a_newer_attempt(held: Desk) -> None:
    sealed = held.ledger.reads.held_labels("raw.a")
    held.ledger.decisions.retry("raw.a", [day(1)], who="bob")
    assert hold(held, 1) != sealed[day(1)]
    with pytest.raises(ClaimRefused, match="no longer held"):
        held.claim("raw.a", 1, restates="a held batch is released", held=sealed)


def test_a_release_that_was_lost_is_taken_up_again(held: Desk) -> None:
    sealed = held.ledger.reads.held_labels("raw.a")
    held.ledger.decisions.request_release("raw.a", [day(1)], who="ann", why="x")
    lost = held.claim("raw.a", 1, held=sealed)
    assert facts_of(held).wanted == {day(1)}
    assert facts_of(held).requested == {day(0): "recollect"}
    held.ledger.claims.close_lost(lost, "its lease ran out")
    assert facts_of(held).requested[day(1)] == RELEASE
    held.ledger.claims.record_done(held.claim("raw.a", 1, held=sealed), [result(1)])
    assert BACKFILL not in facts_of(held).requested.values()
    assert facts_of(held).wanted == set()


def test_past_windows_reread_by_a_held_claim_keep_their_status(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True))
    at_desk.done("raw.a", 0, 1)
    claim = at_desk.claim("raw.a", 0, 1, 2, restates="late rows within LOOKBACK")
    at_desk.ledger.claims.record_failed(
        claim, error="E755 held", is_transient=False, status=BatchStatus.HELD, own=[day(2)]
    )
    assert at_desk.ledger.reads.held_labels("raw.a") == {day(2): claim.number}
    assert facts_of(at_desk).troubles.keys() == {day(2)}
    assert [at_desk.ledger.past.audit("raw.a", day(n)).cell.status for n in range(3)] == ["done", "done", "held"]


def test_a_held_batch_keeps_the_tick_of_its_latest_read_until_it_is_retried(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("marts.b", partitioned=True, reads=["raw.a"]))
    at_desk.done("raw.a", 0, 1)
    picked = at_desk.read("raw.a", 1, 2, read="LATEST(raw.a)")
    claim = at_desk.claim("marts.b", 1, reads={1: [picked]})
    at_desk.ledger.claims.record_failed(claim, error="E755 held", is_transient=False, status=BatchStatus.HELD)
    at_desk.done("raw.a", 2)
    latest = at_desk.ledger.reads.snapshot(at_desk.flow).of("marts.b").latest
    assert latest == {day(1): {"raw.a": day(2)}}
    at_desk.ledger.decisions.request_release("marts.b", [day(1)], who="ann", why="x")
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("marts.b").latest == latest
    at_desk.ledger.decisions.retry("marts.b", [day(1)], who="ann")
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("marts.b").latest == {}


def test_a_held_batch_is_outdated_while_its_inputs_differ_from_those_it_read(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("marts.b", partitioned=True, reads=["raw.a"]))
    at_desk.done("raw.a", 0)

    def is_outdated() -> bool:
        return at_desk.ledger.reads.snapshot(at_desk.flow).of("marts.b").troubles[day(0)].is_outdated

    claim = at_desk.claim("marts.b", 0, reads={0: [at_desk.read("raw.a", 0, 1)]})
    at_desk.ledger.claims.record_failed(claim, error="E755 held", is_transient=False, status=BatchStatus.HELD)
    assert not is_outdated()
    for digest, expected in (("2:2:3", True), ("1:2:3", False)):
        at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recompute", who="ann")
        at_desk.done("raw.a", 0, digest=digest)
        assert is_outdated() is expected


def test_withdrawing_the_request_of_a_held_restatement_ends_the_hold(at_desk: Desk) -> None:
    """This holds even if an input changed after the held rows were made: no request for them is left."""
    at_desk.apply(table("raw.a", partitioned=True), table("marts.b", partitioned=True, reads=["raw.a"]))
    at_desk.done("raw.a", 0)
    at_desk.done("marts.b", 0, reads={0: [at_desk.read("raw.a", 0, 1)]})
    at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recompute", who="ann")
    at_desk.done("raw.a", 0, digest="2:2:3")
    at_desk.ledger.decisions.request_restate("marts.b", [day(0)], "recompute", who="ann")
    claim = at_desk.claim("marts.b", 0, reads={0: [at_desk.read("raw.a", 0, 1)]})
    at_desk.ledger.claims.record_failed(claim, error="E755 held", is_transient=False, status=BatchStatus.HELD)
    at_desk.ledger.decisions.withdraw("marts.b", [day(0)], who="ann")
    assert at_desk.ledger.reads.held_labels("marts.b") == {}
    assert at_desk.suspects("marts.b") == {("marts.b", day(0))}


def test_a_release_that_was_taken_back_is_not_carried_out(held: Desk) -> None:
    sealed = held.ledger.reads.held_labels("raw.a")
    held.ledger.decisions.request_release("raw.a", [day(0)], who="ann", why="x")
    held.ledger.decisions.withdraw("raw.a", [day(0)], who="ann")
    with pytest.raises(ClaimRefused, match="cannot be released"):
        held.claim("raw.a", 0, held=sealed)


def test_rows_that_another_runner_makes_after_a_release_request_are_not_released(held: Desk) -> None:
    """A runner that planned before the batch was held may still make it again, with rows that no user has reviewed."""
    both = [day(0), day(1)]
    held.ledger.decisions.request_release("raw.a", both, who="ann", why="it is right")
    for label in (0, 1):
        hold(held, label)
    facts = facts_of(held)
    assert facts.requested == {day(0): "recollect"}
    assert {label: it.status for label, it in facts.troubles.items()} == dict.fromkeys(both, BatchStatus.HELD)
