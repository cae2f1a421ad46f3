from __future__ import annotations

import pytest
from sqlalchemy.dialects import sqlite

from tests.ledgers import Desk, day, table
from waterclock.ledger.read import current


def test_the_covered_windows_of_a_table_equal_those_of_the_snapshot(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("raw.b", partitioned=True))
    for number in (0, 1, 4):
        at_desk.done("raw.a", number)
    at_desk.done("raw.b", 2)
    reads = at_desk.ledger.reads
    assert list(reads.covered_windows("raw.a")) == [(day(0), day(2)), (day(4), day(5))]
    assert {name: reads.covered_windows(name) for name in ("raw.a", "raw.b")} == {
        name: facts.covered for name, facts in reads.snapshot(at_desk.flow).tables.items()
    }
    assert list(reads.covered_windows("raw.never")) == []


@pytest.mark.parametrize("at_desk", ["sqlite"], indirect=True)
def test_the_covered_windows_of_a_table_are_read_by_an_index_search(at_desk: Desk) -> None:
    with at_desk.ledger._database.read() as connection:
        text = str(current._COVERED.compile(dialect=sqlite.dialect()))
        (plan,) = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", ("raw.a",))
    assert plan[3].startswith("SEARCH coverage USING")
