"""Measures of the newest batches, and the newest versions of columns: one statement each, with a limit of rows."""

from __future__ import annotations

from dataclasses import replace

from tests.ledgers import Desk, day, result, table
from tests.unit.ledger.read.test_states import statements_of
from waterclock.batches.audit_records import MeasuredBatch
from waterclock.batches.schemas import Side


def bring(desk: Desk, name: str, label: int, rows: int, **more: object) -> None:
    claim = desk.claim(name, label, **more)  # type: ignore[arg-type]
    desk.version += 1
    made = result(label, digest=f"{rows}:{desk.version}:1", version=desk.version)
    columns = {f"c{number}": "int" for number in range(label + 1)}
    told = {"schema": {"source": columns, "table": {"c": "int"}}}
    desk.ledger.claims.record_done(claim, [replace(made, measures={"in": rows}, source=told)])


def test_the_newest_visible_batches_are_returned_with_their_measures(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("raw.b", partitioned=True))
    for label in range(5):
        bring(at_desk, "raw.a", label, 10 + label)
    bring(at_desk, "raw.a", 3, 99, restates="again")
    bring(at_desk, "raw.b", 9, 1)
    failed = at_desk.claim("raw.a", 7)
    at_desk.ledger.claims.record_failed(failed, error="no", is_transient=False)
    past = at_desk.ledger.past
    assert past.newest_counted("raw.a", 2) == (
        MeasuredBatch(day(3), 99, {"in": 99}),
        MeasuredBatch(day(4), 14, {"in": 14}),
    )
    assert [each.label for each in past.newest_counted("raw.a", 50)] == [day(number) for number in range(5)]
    assert past.newest_counted("raw.c", 2) == ()
    assert len(statements_of(at_desk, lambda: past.newest_counted("raw.a", 2))) == 1


def test_a_partial_batch_is_no_batch_to_compare_with(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True))
    for label in range(3):
        bring(at_desk, "raw.a", label, 10 + label)
    claim = at_desk.claim("raw.a", 3)
    missing = {"missing": [{"table": "raw.b", "low": "20130101000000", "high": "20130102000000"}]}
    at_desk.ledger.claims.record_done(claim, [replace(result(3, digest="1:9:1", version=9), source=missing)])
    before = at_desk.ledger.reads.measures_before("raw.a", day(5), low=day(0), most=2)
    assert list(before) == [day(2), day(1)]
    assert [each.is_partial for each in at_desk.ledger.past.newest_counted("raw.a", 2)] == [False, True]
    bring(at_desk, "raw.a", 3, 13, restates="again")
    assert list(at_desk.ledger.reads.measures_before("raw.a", day(5), low=day(0), most=1)) == [day(3)]


def test_the_newest_schema_versions_of_each_side_are_returned_newest_first(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True))
    for label in range(5):
        bring(at_desk, "raw.a", label, 1)
    found = at_desk.ledger.past.newest_schemas("raw.a", 2)
    assert [(each.side, each.number) for each in found] == [(Side.SOURCE, 5), (Side.SOURCE, 4), (Side.TABLE, 1)]
    assert at_desk.ledger.past.newest_schemas("raw.a", 9) == at_desk.ledger.reads.schemas("raw.a")
    assert at_desk.ledger.past.newest_schemas("raw.b", 9) == ()
