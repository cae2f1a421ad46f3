from __future__ import annotations

from tests.ledgers import day, desk, result, table
from waterclock.batches.facts import BatchStatus


def test_labels_of_which_rows_are_set_aside_are_found_until_none_is() -> None:
    at = desk()
    at.apply(table("raw.a", partitioned=True))
    claim = at.claim("raw.a", 0, 1)
    at.ledger.claims.record_done(
        claim, [result(0, measures={"quarantined": 3}), result(1, measures={"quarantined": 0})]
    )
    assert at.ledger.reads.set_aside("raw.a") == {day(0): (3, "code of raw.a")}
    assert at.ledger.reads.set_aside("raw.b") == {}
    at.done("raw.a", 0, restates="a replay")
    assert at.ledger.reads.set_aside("raw.a") == {}


def test_held_labels_are_found_with_the_claim_that_sealed_them() -> None:
    at = desk()
    at.apply(table("raw.a", partitioned=True))
    at.done("raw.a", 0)
    failed, held = at.claim("raw.a", 1), at.claim("raw.a", 2)
    at.ledger.claims.record_failed(failed, error="E1", is_transient=False)
    at.ledger.claims.record_failed(held, error="E755 held", is_transient=False, status=BatchStatus.HELD)
    assert at.ledger.reads.held("raw.a") == {day(2): held.number}
    again = at.claim("raw.a", 2)
    at.ledger.claims.close_lost(again, why="not released")
    assert at.ledger.reads.held("raw.a") == {day(2): held.number}
