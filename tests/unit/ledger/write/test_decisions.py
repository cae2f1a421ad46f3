from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ledgers import Desk, day, table
from waterclock.batches.ledger_snapshot import FOLLOW
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Kind, Mode
from waterclock.timelabel.window import Window


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True))


def window(n: int) -> Window:
    return Window(day(n), day(n + 1))


def covered(at_desk: Desk) -> list[int]:
    return [
        n
        for n in range(6)
        if at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").covered.covers(day(n), day(n + 1))
    ]


def statuses(at_desk: Desk) -> list[str | None]:
    return [cell.status for cell in at_desk.ledger.past.grid(["raw.a"])]


def test_skipped_batches_are_covered_without_rows(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    at_desk.ledger.decisions.skip("raw.a", [window(1), window(2)], who="ann", why="the source was down")
    assert covered(at_desk) == [0, 1, 2]
    assert statuses(at_desk) == ["done", "skipped", "skipped"]
    assert len(at_desk.ledger.reads.slices("raw.a", day(0), day(6))) == 1
    [event] = at_desk.ledger.past.audit("raw.a", day(1)).events
    assert (event.kind, event.who, event.data) == ("skipped", "ann", {"why": "the source was down"})


def test_a_failed_batch_can_be_skipped(at_desk: Desk) -> None:
    at_desk.ledger.claims.record_failed(at_desk.claim("raw.a", 0), error="no", is_transient=False)
    at_desk.ledger.decisions.skip("raw.a", [window(0)], who="ann", why="give up")
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").troubles == {}
    assert covered(at_desk) == [0]


def test_a_done_batch_is_not_skipped(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    with pytest.raises(WaterclockError, match=r"raw\.a@20130101000000 cannot be skipped") as refused:
        at_desk.ledger.decisions.skip("raw.a", [window(1), window(0)], who="ann", why="x")
    assert refused.value.code == "E413"
    assert covered(at_desk) == [0]


def test_a_running_batch_is_neither_skipped_nor_retried(at_desk: Desk) -> None:
    held = at_desk.claim("raw.a", 0)
    with pytest.raises(WaterclockError, match=f"claim {held.number} is open"):
        at_desk.ledger.decisions.skip("raw.a", [window(0)], who="ann", why="x")
    with pytest.raises(WaterclockError, match="cannot be tried again"):
        at_desk.ledger.decisions.retry("raw.a", [day(0)], who="ann")
    at_desk.done("raw.a", 0, claim=held)


@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.TEMPORAL])
def test_the_skip_of_a_snapshot_stays_once_a_newer_one_is_done(at_desk: Desk, mode: Mode) -> None:
    snapshot = table("raw.s", mode=mode, kind=Kind.COLLECT)
    at_desk.apply(table("raw.a", partitioned=True), snapshot, fingerprint="flow 2")
    at_desk.ledger.decisions.skip("raw.s", [window(0)], who="ann", why="x")
    assert at_desk.ledger.decisions.retry("raw.s", [day(0)], who="ann") == (day(0),)
    at_desk.ledger.decisions.skip("raw.s", [window(0)], who="ann", why="x")
    at_desk.done("raw.s", 1, stands_from=1)
    with pytest.raises(WaterclockError, match=r"raw\.s@20130101000000 cannot be made any more") as refused:
        at_desk.ledger.decisions.retry("raw.s", [day(0)], who="ann")
    assert refused.value.code == "E413"


def test_retry_makes_failed_held_and_skipped_batches_due_again(at_desk: Desk) -> None:
    at_desk.ledger.claims.record_failed(at_desk.claim("raw.a", 0), error="no", is_transient=False)
    at_desk.ledger.decisions.skip("raw.a", [window(1), window(2)], who="ann", why="x")
    at_desk.done("raw.a", 3)
    assert at_desk.ledger.decisions.retry("raw.a", [day(n) for n in (0, 1, 3, 5)], who="bob") == (day(0), day(1))
    assert statuses(at_desk) == [None, None, "skipped", "done"]
    assert covered(at_desk) == [2, 3]
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").troubles == {}
    at_desk.done("raw.a", 0, 1)
    assert [cell.attempts for cell in at_desk.ledger.past.grid(["raw.a"])][:2] == [1, 1]


def test_retrying_a_failed_restatement_leaves_the_batch_done(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recompute", who="ann")
    at_desk.ledger.claims.record_failed(at_desk.claim("raw.a", 0), error="no", is_transient=False)
    assert at_desk.ledger.decisions.retry("raw.a", [day(0)], who="ann") == (day(0),)
    assert statuses(at_desk) == ["done"]
    facts = at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a")
    assert facts.requested == {day(0): "recompute"}
    assert facts.troubles == {}
    assert covered(at_desk) == [0]


def test_only_done_batches_are_restated(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    with pytest.raises(WaterclockError, match="cannot be restated") as refused:
        at_desk.ledger.decisions.request_restate("raw.a", [day(0), day(1)], "recompute", who="ann")
    assert refused.value.code == "E413"
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").requested == {}


def test_a_request_is_made_once_and_can_be_withdrawn(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, 1)
    both = [day(0), day(1)]
    assert at_desk.ledger.decisions.request_restate("raw.a", both, "recompute", who="ann") == tuple(both)
    assert at_desk.ledger.decisions.request_restate("raw.a", both, "recompute", who="bob") == ()
    assert at_desk.ledger.decisions.request_restate("raw.a", [day(1)], "recollect", who="bob") == (day(1),)
    assert at_desk.ledger.decisions.withdraw("raw.a", both, who="ann") == tuple(both)
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").requested == {}
    kinds = [event.kind for event in at_desk.ledger.past.audit("raw.a", day(1)).events]
    assert kinds[2:] == ["recompute requested", "recollect requested", "request withdrawn"]


def test_a_request_is_recorded_with_the_command_that_made_it(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recompute", who="ann", command="replay")
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").requested == {day(0): "recompute"}
    assert at_desk.ledger.past.audit("raw.a", day(0)).events[-1].kind == "replay requested"


def test_a_request_that_was_tried_and_failed_is_withdrawn_with_its_failure(at_desk: Desk) -> None:
    ledger = at_desk.ledger
    at_desk.done("raw.a", 0)
    ledger.decisions.request_restate("raw.a", [day(0)], "recompute", who="ann")
    held = at_desk.claim("raw.a", 0)
    with pytest.raises(WaterclockError, match="cannot be taken back") as refused:
        ledger.decisions.withdraw("raw.a", [day(0)], who="bob")
    assert refused.value.code == "E413"
    ledger.claims.record_failed(held, error="E731 no", is_transient=False)
    assert ledger.decisions.withdraw("raw.a", [day(0)], who="bob", why="not now") == (day(0),)
    facts = ledger.reads.snapshot(at_desk.flow).of("raw.a")
    assert (facts.requested, facts.troubles) == ({}, {})
    told = ledger.past.audit("raw.a", day(0))
    assert (told.cell.status, told.events[-1].data) == ("done", {"why": "not now"})


def test_a_request_to_recollect_is_not_weakened_to_recompute(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recollect", who="ann")
    assert at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recompute", who="bob") == ()
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").requested == {day(0): "recollect"}


def test_a_request_to_follow_is_weaker_than_one_to_make_again_and_ends_by_itself(at_desk: Desk) -> None:
    ledger, both = at_desk.ledger, [day(0), day(1)]
    at_desk.done("raw.a", 0, 1)
    ledger.decisions.request_restate("raw.a", [day(0)], "recompute", who="ann")
    assert ledger.decisions.request_restate("raw.a", both, FOLLOW, who="bob") == (day(1),)
    facts = ledger.reads.snapshot(at_desk.flow).of("raw.a")
    assert (facts.requested, facts.following) == ({day(0): "recompute"}, frozenset({day(1)}))
    asking = {("recompute", "raw.a"): [day(1)]}
    assert ledger.reads.snapshot(at_desk.flow, asking=asking).of("raw.a").requested == dict.fromkeys(both, "recompute")
    ledger.decisions.end_following("raw.a", both, who="ann")
    facts = ledger.reads.snapshot(at_desk.flow).of("raw.a")
    assert (facts.requested, facts.following) == ({day(0): "recompute"}, frozenset())
    kinds = [event.kind for event in ledger.past.audit("raw.a", day(1)).events]
    assert kinds[2:] == ["follow requested", "needs not follow"]


def test_a_request_to_follow_gives_way_to_a_stronger_one(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    at_desk.ledger.decisions.request_restate("raw.a", [day(0)], FOLLOW, who="ann")
    assert at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recollect", who="bob") == (day(0),)
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").requested == {day(0): "recollect"}


def test_many_labels_are_decided_at_once(at_desk: Desk) -> None:
    many = [window(n) for n in range(3000)]
    at_desk.ledger.decisions.skip("raw.a", many, who="ann", why="before our time")
    assert list(at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").covered) == [(day(0), day(3000))]
    labels = [each.start for each in many]
    assert at_desk.ledger.decisions.retry("raw.a", labels[:2000], who="ann") == tuple(labels[:2000])
    assert list(at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").covered) == [(day(2000), day(3000))]


DECISIONS: dict[str, Callable[[Desk], object]] = {
    "skip": lambda at_desk: at_desk.ledger.decisions.skip("raw.b", [window(0)], who="ann", why="x"),
    "retry": lambda at_desk: at_desk.ledger.decisions.retry("raw.b", [day(0)], who="ann"),
    "restate": lambda at_desk: at_desk.ledger.decisions.request_restate("raw.b", [day(0)], "recompute", who="ann"),
    "withdraw": lambda at_desk: at_desk.ledger.decisions.withdraw("raw.b", [day(0)], who="ann"),
}


@pytest.mark.parametrize("verb", DECISIONS)
def test_decisions_about_an_unknown_table_are_refused(at_desk: Desk, verb: str) -> None:
    with pytest.raises(WaterclockError, match=r"no table raw\.b") as refused:
        DECISIONS[verb](at_desk)
    assert (refused.value.code, refused.value.fix) == ("E412", "did you mean raw.a?")


def test_a_backfill_request_is_recorded_until_its_batch_is_done_or_it_is_withdrawn(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    at_desk.ledger.claims.record_failed(at_desk.claim("raw.a", 1), error="no", is_transient=False)
    at_desk.ledger.decisions.skip("raw.a", [window(2)], who="ann", why="x")
    held = at_desk.claim("raw.a", 3)
    asked = [day(n) for n in range(6)]
    ask = at_desk.ledger.decisions.request_backfill
    assert ask("raw.a", asked, who="bo", why="the audit") == (day(4), day(5))
    assert ask("raw.a", asked, who="bo") == ()
    [event] = at_desk.ledger.past.audit("raw.a", day(4)).events
    assert (event.kind, event.who, event.data) == ("backfill requested", "bo", {"why": "the audit"})
    at_desk.done("raw.a", 3, claim=held)
    assert _wanted(at_desk) == {day(4), day(5)}
    at_desk.done("raw.a", 4)
    at_desk.ledger.decisions.withdraw("raw.a", [day(5)], who="bo")
    assert _wanted(at_desk) == set()


def test_a_backfill_request_remains_after_its_batch_failed(at_desk: Desk) -> None:
    at_desk.ledger.decisions.request_backfill("raw.a", [day(0)], who="bo")
    at_desk.ledger.claims.record_failed(at_desk.claim("raw.a", 0), error="no", is_transient=False)
    at_desk.ledger.decisions.retry("raw.a", [day(0)], who="bo")
    assert _wanted(at_desk) == {day(0)}


def _wanted(at_desk: Desk) -> set[object]:
    return set(at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a").wanted)


def test_the_newest_note_of_a_rule_is_shown_until_it_is_removed(at_desk: Desk) -> None:
    note, notes = at_desk.ledger.decisions.record_rule_note, at_desk.ledger.past.rule_notes
    for rule, text in (("some", "one"), ("few", "two")):
        note("raw.a", rule, text, who="ann")
    note("raw.a", "some", "four", who="bo")
    assert {key: (it.text, it.who) for key, it in notes(["raw.a"]).items()} == {
        ("raw.a", "some"): ("four", "bo"), ("raw.a", "few"): ("two", "ann"),
    }  # fmt: skip
    note("raw.a", "some", "", who="ann")
    assert set(notes(["raw.a"])) == {("raw.a", "few")}
    assert notes(["raw.b"]) == {}
    with pytest.raises(WaterclockError, match=r"raw\.no"):
        note("raw.no", "some", "x", who="ann")
