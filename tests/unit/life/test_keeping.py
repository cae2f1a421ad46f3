"""Persons kept apart in the oracle of random lives: rows of the joining view while one of its tables is not made."""

from __future__ import annotations

from tests.life.branching import has_branch
from tests.life.declarations import Declared
from tests.life.erasing import tables_of_persons
from tests.life.favour import LIVES
from tests.life.keeping import EVENTS, PERSONS, has_apart, joined_rows
from tests.life.oracle import Oracle
from tests.life.part import FAILED, SKIPPED, Read
from tests.life.parts import Fail
from tests.life.people import Apart, Persons
from tests.life.rows import DAY, Row
from tests.life.tokens import has_tokens
from tests.unit.life.test_oracle import RAW, run

ROWS = [Row(1, 10, 60), Row(2, 20, 120), Row(1, 30, 180), Row(2, 40, DAY + 60)]


def lived() -> Oracle:
    """Return a table with APART, and that of its persons, with two days made."""
    reads = (Read("PLAIN", RAW),)
    oracle = Oracle(
        {
            RAW: Declared("COLLECT", RAW, "PARTITIONED"),
            EVENTS: Declared("TRANSFORM", EVENTS, "PARTITIONED", parts=[Fail(), Apart()], reads=reads),
            PERSONS: Declared("TRANSFORM", PERSONS, "PARTITIONED", parts=[Persons()], reads=reads),
        },
        today=3,
    )
    oracle.source[RAW] += ROWS
    run(oracle)
    return oracle


def test_the_view_has_the_rows_of_the_query() -> None:
    oracle = lived()
    assert {label: [row.k for row in made.stay] for label, made in oracle.books[PERSONS].shown.items()} == {
        1: [1, 2],
        2: [2],
    }
    assert joined_rows(oracle) == {1: tuple(sorted(ROWS[:3])), 2: (ROWS[3],)}


def test_a_label_is_left_out_until_both_are_made_of_the_same_inputs() -> None:
    oracle = lived()
    whole = joined_rows(oracle)
    made = oracle.books[PERSONS].shown.pop(2)
    oracle.books[PERSONS].status[2] = FAILED
    assert joined_rows(oracle) == {1: whole[1]}
    oracle.books[PERSONS].status[2] = SKIPPED
    assert joined_rows(oracle) == whole | {2: (ROWS[3]._replace(k=0),)}
    oracle.books[PERSONS].shown[2] = made
    oracle.source[RAW][0] = Row(1, 9, 60)  # its new value is refused, and its persons are made again
    oracle.ask(RAW, 1, "recollect")
    run(oracle)
    assert oracle.books[EVENTS].status[1] == FAILED
    assert joined_rows(oracle) == {2: whole[2]}


def test_events_of_an_erased_person_have_no_person_and_disappear_when_made_again() -> None:
    oracle = lived()
    tables = tables_of_persons(oracle.tables)
    assert tables == {RAW, PERSONS}
    oracle.erase(1, tables)
    run(oracle)
    assert joined_rows(oracle) == {1: tuple(sorted([Row(0, 10, 60), Row(0, 30, 180), ROWS[1]])), 2: (ROWS[3],)}
    oracle.ask(EVENTS, 1, "recompute")
    run(oracle)
    assert joined_rows(oracle) == {1: (ROWS[1],), 2: (ROWS[3],)}, "after a recomputation the events are missing"


def test_no_life_with_a_branch_keeps_persons_apart() -> None:
    seeds = [seed for seed in range(4 * LIVES) if has_apart(seed)]
    assert len(seeds) == 60
    assert sum(map(has_tokens, seeds)) == 30
    assert not any(map(has_branch, seeds))
