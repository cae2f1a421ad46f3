"""The batches of a run are found by its time, among the claims of all others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.ledgers import Desk, day, table


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("raw.b", partitioned=True))


def begin(at_desk: Desk) -> str:
    return at_desk.ledger.past.begin_run(who="ann", command="run", now=day(9))


def made(at_desk: Desk, name: str, most: int = 100) -> list[tuple[str, list[int], str, int | None]]:
    run = at_desk.ledger.past.find_run(name)
    assert run is not None
    found = at_desk.ledger.past.claims_of_run(run, most)
    return [
        (each.table, [(each.first - day(0)).days, (each.last - day(0)).days, each.count], each.status, each.rows)
        for each in found
    ]


def test_each_run_has_its_own_claims_oldest_first(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, run="somebody else's")
    one = begin(at_desk)
    at_desk.done("raw.a", 1, 2, 3, run=one)
    other = begin(at_desk)  # two at once
    at_desk.done("raw.b", 1, run=other)
    at_desk.ledger.claims.record_failed(at_desk.claim("raw.a", 4, run=one), error="no", is_transient=False)
    at_desk.ledger.past.end_run(one, "failed", who="ann")
    at_desk.claim("raw.b", 2, run=other)
    rows = made(at_desk, other)[0][3] or 0
    assert made(at_desk, one) == [("raw.a", [1, 3, 3], "done", rows * 3), ("raw.a", [4, 4, 1], "failed", None)]
    assert made(at_desk, other) == [("raw.b", [1, 1, 1], "done", rows), ("raw.b", [2, 2, 1], "open", None)]
    assert made(at_desk, one, most=1) == [("raw.a", [4, 4, 1], "failed", None)]
    assert at_desk.ledger.past.find_run("nobody's") is None


def test_claims_before_and_after_a_run_are_passed_over(at_desk: Desk) -> None:
    for n in range(12):
        at_desk.done("raw.a", n)
        at_desk.clock.at += timedelta(days=1)
    one = begin(at_desk)
    at_desk.done("raw.b", 0, run=one)
    at_desk.ledger.past.end_run(one, "done", who="ann")
    for n in range(1, 12):
        at_desk.clock.at += timedelta(days=1)
        at_desk.done("raw.b", n)
    assert [labels for _, labels, _, _ in made(at_desk, one)] == [[0, 0, 1]]


def test_a_clock_that_was_wrong_hides_nothing(at_desk: Desk) -> None:
    at_desk.clock.pass_by(days=2)  # ahead, and corrected before the next run
    at_desk.done("raw.a", 0, run=begin(at_desk))
    at_desk.clock.pass_by(days=-2)
    one = begin(at_desk)
    at_desk.done("raw.a", 1, run=one)
    at_desk.clock.pass_by(hours=-3)
    at_desk.done("raw.a", 2, run=one)
    at_desk.ledger.past.end_run(one, "done", who="ann")
    at_desk.done("raw.a", 3, run="another")
    assert [labels for _, labels, _, _ in made(at_desk, one)] == [[1, 1, 1], [2, 2, 1]]


def test_a_run_that_made_nothing_has_nothing(at_desk: Desk) -> None:
    assert made(at_desk, begin(at_desk)) == []
