"""Erased persons in the oracle of random lives: the tables with their column, and rows that are in no table."""

from __future__ import annotations

from tests.life.declarations import Declared
from tests.life.erasing import tables_of_persons
from tests.life.part import Read
from tests.life.people import Subject
from tests.life.rows import DAY, Row
from tests.unit.life.test_oracle import MADE, RAW, oracle_of, run, shown


def transform(name: str, *reads: str, odd: str = "", is_declared: bool = False) -> Declared:
    table = Declared("TRANSFORM", name, "PARTITIONED", parts=[Subject()] if is_declared else [])
    table.reads = tuple(Read("PLAIN", of) for of in reads)
    table.odd = (Read("PLAIN", odd),) if odd else ()
    return table


def test_the_tables_of_persons_are_copies_in_either_direction() -> None:
    tables = [
        Declared("COLLECT", "raw.a", "PARTITIONED"),
        Declared("COLLECT", "raw.b", "PARTITIONED"),
        transform("made.a", "raw.a", is_declared=True),
        transform("made.b", "made.a", "raw.b"),  # only its sums are of raw.b
        transform("made.c", "made.a", odd="raw.b"),  # the persons of a label depend on its window
        transform("made.d", "made.a", odd="raw.a"),
        transform("made.e", "raw.b"),
        Declared("PUBLISH", "out.p", "PARTITIONED", of="made.b"),
    ]
    flow = {table.name: table for table in tables}
    assert tables_of_persons(flow) == {"raw.a", "made.a", "made.b", "made.d", "out.p"}
    assert tables_of_persons({name: table for name, table in flow.items() if name != "made.a"}) == set()


def test_rows_of_an_erased_person_are_removed_and_no_batch_becomes_stale() -> None:
    oracle = oracle_of("PARTITIONED")
    oracle.source[RAW] += [Row(2, 50 + day, day * DAY + 60) for day in range(5)]
    run(oracle)
    assert shown(oracle) == {1: [10, 50], 2: [11, 51]}
    oracle.erase(2, {RAW, MADE})
    assert shown(oracle) == shown(oracle, RAW) == {1: [10], 2: [11]}
    before = dict(oracle.books[MADE].shown)
    run(oracle)
    assert oracle.books[MADE].shown == before
    oracle.today += 1
    run(oracle)
    assert shown(oracle) == {1: [10], 2: [11], 3: [12]}
    assert oracle.is_erased(RAW, 2)
    assert not oracle.is_erased(RAW, 1)
