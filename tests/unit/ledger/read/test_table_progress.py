"""The progress of tables, as recorded in the ledger."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from tests.ledgers import ZERO, Desk, day, desk, result, table
from tests.unit.ledger.read.test_states import statements_of
from waterclock.batches.progress_records import LabelRows, RunningClaim


def made(desk: Desk, name: str, *labels: float, rows: int = 1, seconds: float = 0, **more: object) -> None:
    claim = desk.claim(name, *labels, **more)  # type: ignore[arg-type]
    desk.clock.pass_by(seconds=seconds)
    desk.version += 1
    desk.ledger.claims.record_done(
        claim, [result(label, digest=f"{rows}:{desk.version}:1", version=desk.version) for label in labels]
    )


def test_the_newest_labels_have_the_time_they_were_first_done_and_their_current_rows(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("raw.b", partitioned=True))
    begun = at_desk.clock.at
    made(at_desk, "raw.a", 0, 1, seconds=10)
    made(at_desk, "raw.a", 2, seconds=3, rows=7)
    made(at_desk, "raw.b", 0)
    made(at_desk, "raw.a", 1, seconds=7, rows=5, restates="again")
    past = at_desk.ledger.past
    found = past.list_newest_labels(["raw.a", "raw.b", "raw.c"], 2)
    assert set(found) == {"raw.a", "raw.b"}
    assert [(it.label, it.end, it.rows) for it in found["raw.a"]] == [(day(1), day(2), 5), (day(2), day(3), 7)]
    assert [it.took.total_seconds() for it in found["raw.a"]] == [5, 3]
    assert [it.done - begun for it in found["raw.a"]] == [timedelta(seconds=10), timedelta(seconds=13)]
    assert past.newest_rows(["raw.a"], 9)["raw.a"] == (LabelRows(day(0), 1), LabelRows(day(1), 5), LabelRows(day(2), 7))
    assert past.newest_rows(["raw.a"], 1)["raw.a"] == (LabelRows(day(2), 7),)


def test_the_duration_of_a_batch_is_that_of_its_claim_after_the_clock_was_set_back(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True))
    made(at_desk, "raw.a", 0, seconds=10)
    at_desk.clock.pass_by(hours=-1)
    made(at_desk, "raw.a", 1, seconds=7)
    assert [it.took.total_seconds() for it in at_desk.ledger.past.list_newest_labels(["raw.a"], 2)["raw.a"]] == [10, 7]


def test_done_times_follow_the_clock_that_the_run_was_given(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True))
    for at, told in ((0, day(1)), (1, day(2)), (2, at_desk.clock.at - timedelta(seconds=20))):
        run = at_desk.ledger.past.begin_run(who="ann", command="run", now=told)
        made(at_desk, "raw.a", at, seconds=60, run=run)
    real = at_desk.clock.at
    dones = [it.done for it in at_desk.ledger.past.list_newest_labels(["raw.a"], 5)["raw.a"]]
    assert dones == [day(1) + timedelta(seconds=60), day(2) + timedelta(seconds=60), real]


def test_open_claims_are_returned_with_their_labels(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("raw.b", partitioned=True))
    made(at_desk, "raw.b", 0)
    claim = at_desk.claim("raw.a", 3, 4)
    since = at_desk.clock.at
    at_desk.clock.pass_by(seconds=5)
    assert at_desk.ledger.past.list_open_claims(["raw.a", "raw.b"]) == (
        RunningClaim("raw.a", claim.number, day(3), 2, since),
    )
    assert at_desk.ledger.past.list_open_claims(["raw.b"]) == ()


def test_a_table_began_with_its_first_claim_even_if_the_claim_failed(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("raw.b", partitioned=True))
    failed = at_desk.claim("raw.a", 5, now=day(6))
    at_desk.ledger.claims.record_failed(failed, error="no", is_transient=False)
    made(at_desk, "raw.a", 0, now=day(7))
    assert at_desk.ledger.past.began(["raw.a", "raw.b"]) == {"raw.a": day(6)}
    assert at_desk.ledger.past.began_by(["raw.a", "raw.b"]) == {"raw.a": day(7)}


def test_tables_whose_newest_batch_is_empty_are_returned_until_it_has_rows(at_desk: Desk) -> None:
    at_desk.apply(*(table(f"raw.{name}", partitioned=True) for name in "abc"))
    made(at_desk, "raw.a", 0, rows=4)
    made(at_desk, "raw.a", 1, rows=0)
    made(at_desk, "raw.b", 0, rows=0)
    made(at_desk, "raw.b", 1, rows=4)
    past = at_desk.ledger.past
    assert past.empty_at_last(["raw.a", "raw.b", "raw.c"]) == {"raw.a"}
    made(at_desk, "raw.a", 1, rows=2, restates="again")
    assert past.empty_at_last(["raw.a"]) == set()


def test_each_question_is_one_statement_for_any_number_of_tables(at_desk: Desk) -> None:
    names = [f"raw.t{number}" for number in range(12)]
    at_desk.apply(*(table(name, partitioned=True) for name in names))
    for name in names:
        made(at_desk, name, 0, 1, rows=0)
    past = at_desk.ledger.past
    for ask in (
        lambda: past.list_newest_labels(names, 10),
        lambda: past.newest_rows(names, 10),
        lambda: past.empty_at_last(names),
        lambda: past.list_open_claims(names),
        lambda: past.began(names),
        lambda: past.began_by(names),
    ):
        said = [text for text in statements_of(at_desk, ask) if "SELECT" in text and "FROM" in text]
        assert len(said) == 1
    assert past.began(names)["raw.t3"] == ZERO


def test_that_a_table_had_begun_is_known_from_its_oldest_label_whatever_its_history(
    request: pytest.FixtureRequest,
) -> None:
    at, steps = desk(), []
    request.addfinalizer(at.ledger.close)
    at.apply(table("raw.a", partitioned=True), table("raw.b", partitioned=True))
    raw = at.ledger._database._engine.raw_connection().driver_connection
    assert raw is not None
    for first, last in ((0, 20), (20, 2000)):
        at.done("raw.a", *range(first, last))
        at.done("raw.b", *range(first, last))
        at.ledger.past.began_by(["raw.a", "raw.b"])
        looked: list[int] = []
        raw.set_progress_handler(partial(looked.append, 1), 1)
        assert set(at.ledger.past.began_by(["raw.a", "raw.b"])) == {"raw.a", "raw.b"}
        raw.set_progress_handler(None, 0)
        steps.append(len(looked))
    assert steps[1] <= 1.2 * steps[0]
