from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.counting import calls_of
from tests.ledgers import Desk, day, desk, result, table
from waterclock.batches.ledger_snapshot import BatchStatus


@pytest.fixture
def at() -> Iterator[Desk]:
    made = desk()
    yield made
    made.ledger.close()


def test_labels_of_which_rows_are_set_aside_are_found_until_none_is(at: Desk) -> None:
    at.apply(table("raw.a", partitioned=True))
    claim = at.claim("raw.a", 0, 1)
    at.ledger.claims.record_done(
        claim, [result(0, measures={"quarantined": 3}), result(1, measures={"quarantined": 0})]
    )
    assert at.ledger.reads.list_quarantined_labels("raw.a") == {day(0): (3, "code of raw.a")}
    assert at.ledger.reads.list_quarantined_labels("raw.b") == {}
    at.done("raw.a", 0, restates="a replay")
    assert at.ledger.reads.list_quarantined_labels("raw.a") == {}


def test_held_labels_are_found_with_the_claim_that_sealed_them(at: Desk) -> None:
    at.apply(table("raw.a", partitioned=True))
    at.done("raw.a", 0)
    failed, held = at.claim("raw.a", 1), at.claim("raw.a", 2)
    at.ledger.claims.record_failed(failed, error="E1", is_transient=False)
    at.ledger.claims.record_failed(held, error="E755 held", is_transient=False, status=BatchStatus.HELD)
    assert at.ledger.reads.held_labels("raw.a") == {day(2): held.number}
    assert [at.ledger.reads.held_claim("raw.a", day(label)) for label in range(4)] == [None, None, held.number, None]
    again = at.claim("raw.a", 2)
    at.ledger.claims.close_lost(again, why="not released")
    assert at.ledger.reads.held_labels("raw.a") == {day(2): held.number}


def test_slices_of_which_rows_are_set_aside_are_read_alone_whatever_the_history(at: Desk) -> None:
    at.apply(table("raw.a", partitioned=True))
    at.done("raw.a", *range(50))
    claim = at.claim("raw.a", 50, 60)
    results = [result(label, measures={"quarantined": 1}) for label in (50, 60)]
    at.ledger.claims.record_done(claim, results)
    at.ledger.reads.list_quarantine_slices("raw.a")  # compiles its statement
    found, calls = calls_of(lambda: at.ledger.reads.list_quarantine_slices("raw.a"))
    assert [(it.label, it.claim) for it in found] == [(day(50), claim.number), (day(60), claim.number)]
    at.done("raw.a", *range(100, 300))
    again, later = calls_of(lambda: at.ledger.reads.list_quarantine_slices("raw.a"))
    assert (again, later) == (found, calls)
