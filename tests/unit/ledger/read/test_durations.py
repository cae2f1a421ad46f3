"""Durations of labels, computed from the durations of their claims."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.ledgers import Desk, day, table


def made(desk: Desk, name: str, *labels: float, seconds: float, **more: Any) -> None:
    claim = desk.claim(name, *labels, **more)
    desk.clock.pass_by(seconds=seconds)
    desk.done(name, *labels, claim=claim)


def test_the_duration_of_a_label_is_its_share_of_all_claims_that_made_it(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("raw.b", partitioned=True))
    made(at_desk, "raw.a", 0, 1, seconds=10)
    made(at_desk, "raw.a", 2, seconds=3)
    made(at_desk, "raw.b", 0, seconds=0.5)
    made(at_desk, "raw.a", 1, seconds=7, restates="again")
    failed = at_desk.claim("raw.a", 3)
    at_desk.clock.pass_by(seconds=9)
    at_desk.ledger.claims.record_failed(failed, error="no", is_transient=False)
    found = at_desk.ledger.past.durations(["raw.a", "raw.b"], day(0), day(9))
    assert {label: took.total_seconds() for label, took in found.items()} == {day(0): 5.5, day(1): 12, day(2): 3}
    assert at_desk.ledger.past.durations(["raw.a"], day(0), day(1)) == {day(0): timedelta(seconds=5)}
    assert at_desk.ledger.past.durations([], day(0), day(1)) == {}
