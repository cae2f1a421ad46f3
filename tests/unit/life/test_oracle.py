"""The oracle of random lives on small flows: damaged labels, partial states, late rows, rules of tables."""

from __future__ import annotations

import pytest

from tests.life.books import Closed, Made, Option, Seen, Unexpected
from tests.life.declarations import Declared
from tests.life.oracle import Oracle
from tests.life.part import DONE, FAILED, Part, Read
from tests.life.parts import Closes, Fail, Hold, OverTable, Partial, Report
from tests.life.rows import DAY, Row

RAW, CLOSED, MADE = "raw.c", "made.closed", "made.t"


def oracle_of(mode: str, *parts: Part, size: int = 1, today: int = 3) -> Oracle:
    """Return a collected table whose days fail for a value of 9, and a table made from it."""
    raw = Declared("COLLECT", RAW, "PARTITIONED", parts=[Fail()])
    made = Declared("TRANSFORM", MADE, mode, parts=[*parts], reads=(Read("PLAIN", RAW),), size=size)
    made.shapes = {RAW: "PARTITIONED", MADE: mode}
    oracle = Oracle({RAW: raw, MADE: made}, today=today)
    oracle.source[RAW] = [Row(1, 10 + day, day * DAY) for day in range(5)]
    return oracle


def run(oracle: Oracle) -> None:
    """Run due batches by the oracle's rules."""
    oracle.begin()
    for name in oracle.tables:
        oracle.take(name, oracle.options(name), None)
        oracle.looked(name)


def shown(oracle: Oracle, name: str = MADE) -> dict[int, list[int]]:
    return {label: [row.v for row in made.stay] for label, made in oracle.books[name].shown.items()}


def test_a_damaged_label_of_a_transform_is_made_again_as_it_was() -> None:
    oracle = oracle_of("PARTITIONED")
    run(oracle)
    assert oracle.remakable(oracle.tables[MADE]) == [1, 2]
    assert oracle.books[MADE].asked == {}
    oracle.ask(MADE, 1, "recompute")
    run(oracle)
    assert shown(oracle) == {1: [10], 2: [11]}
    assert oracle.books[MADE].status == {1: DONE, 2: DONE}


def test_only_labels_that_recompute_surely_makes_again_are_damaged() -> None:
    oracle = oracle_of("PARTITIONED")
    run(oracle)
    oracle.ask(RAW, 1, "recollect")  # its rows may be missing when the label is made
    assert oracle.remakable(oracle.tables[MADE]) == [2]
    oracle.source[RAW] = [row._replace(v=9) for row in oracle.source[RAW]]
    run(oracle)
    assert oracle.books[RAW].status == {1: FAILED, 2: DONE}
    oracle.paused = {MADE}
    assert oracle.remakable(oracle.tables[MADE]) == []
    of_collect = oracle.tables[RAW]
    assert oracle.remakable(of_collect) == []
    # released rows may be held again
    held = oracle_of("PARTITIONED", Hold())
    held.source[RAW] = [Row(1, 27, 0), Row(1, 12, DAY)]
    run(held)
    held.ask(MADE, 1, "release")
    run(held)
    assert shown(held) == {1: [27], 2: [12]}
    assert held.remakable(held.tables[MADE]) == [2]


def test_a_label_of_a_transform_that_is_given_up_is_empty_until_it_is_made_again() -> None:
    for parts in ((), (Report(),)):
        oracle = oracle_of("PARTITIONED", *parts)
        run(oracle)
        oracle.ask(MADE, 1, "give up")
        run(oracle)
        run(oracle)
        assert shown(oracle) == {1: [], 2: [11]}
        oracle.ask(MADE, 1, "recompute")
        run(oracle)
        assert shown(oracle) == {1: [10], 2: [11]}


def test_a_lost_label_that_was_skipped_follows_its_restated_input() -> None:
    oracle = oracle_of("PARTITIONED")
    run(oracle)
    oracle.ask(MADE, 1, "give up")
    run(oracle)
    oracle.source[RAW][0] = Row(1, 50, 0)
    oracle.ask(RAW, 1, "recollect")
    run(oracle)
    assert shown(oracle) == {1: [50], 2: [11]}


def test_a_newest_state_is_made_without_a_missing_input_and_completed_later() -> None:
    oracle = oracle_of("REPLACE", Partial(1), size=2)
    oracle.source[RAW][1] = Row(1, 9, DAY)
    run(oracle)
    assert oracle.books[RAW].status == {1: DONE, 2: FAILED}
    assert shown(oracle) == {}  # it waits for a day
    oracle.today = 4
    run(oracle)
    assert shown(oracle) == {1: [510]}
    run(oracle)
    assert shown(oracle) == {1: [510]}
    oracle.source[RAW][1] = Row(1, 11, DAY)
    oracle.ask(RAW, 2, "retry")
    run(oracle)
    assert shown(oracle) == {1: [10, 11]}
    assert not oracle.books[MADE].shown[1].is_partial


def test_a_whole_state_is_not_replaced_by_a_partial_one_and_an_older_one_is_not_completed() -> None:
    oracle = oracle_of("REPLACE", Partial(1), size=2)
    run(oracle)
    assert shown(oracle) == {1: [10, 11]}
    oracle.today = 4
    oracle.source[RAW][0] = Row(1, 9, 0)
    oracle.ask(RAW, 1, "recollect")
    run(oracle)
    assert shown(oracle) == {1: [10, 11]}
    later = oracle_of("REPLACE", Partial(1), size=2, today=4)
    later.source[RAW][1] = Row(1, 9, DAY)
    run(later)
    later.today = 5
    run(later)
    assert shown(later)[3] == [12, 13]
    later.source[RAW][1] = Row(1, 11, DAY)
    later.ask(RAW, 2, "retry")
    run(later)
    assert shown(later)[1] == [510]


def test_a_state_without_partial_after_waits() -> None:
    oracle = oracle_of("REPLACE", size=2, today=4)
    oracle.source[RAW][1] = Row(1, 9, DAY)
    run(oracle)
    assert shown(oracle) == {}


@pytest.mark.parametrize("mode", ["MERGE", "TEMPORAL"])
@pytest.mark.parametrize(
    ("first", "second", "days", "allowed"),
    [
        # the second label hides the row that the rule refuses: both run again, in one commit or in two
        (Row(1, 21, 0), Row(1, 12, 0), 3, {1: {DONE, FAILED}, 2: {DONE}}),
        (Row(1, 21, 0), Row(2, 12, 0), 3, {1: {FAILED}, 2: {DONE}}),
        (Row(1, 12, 0), Row(1, 21, 0), 3, {1: {DONE}, 2: {FAILED}}),
        # new labels are checked one after the other
        (Row(1, 21, 0), Row(1, 12, 0), 1, {1: {FAILED}, 2: {DONE}}),
        # the first label runs again, together with the second as the first new one
        (Row(1, 21, 0), Row(1, 12, 0), 2, {1: {DONE, FAILED}, 2: {DONE}}),
    ],
)
def test_labels_that_run_again_in_one_commit_are_checked_together(
    mode: str, first: Row, second: Row, days: int, allowed: dict[int, set[str | None]]
) -> None:
    oracle = oracle_of(mode, OverTable(), today=days)
    oracle.source[RAW] = [Row(1, 10, 0), Row(2, 14, DAY)]
    run(oracle)
    assert len(oracle.books[MADE].shown) == days - 1
    oracle.today = 3
    oracle.begin()
    for label, row in {1: first, 2: second}.items():
        oracle.books[RAW].take(label, Option(DONE, Made((row,), (row,))))
    found = {label: {it.status for it in options} - {None} for label, options in oracle.options(MADE).items()}
    assert found == allowed


def test_rows_that_a_table_rule_refuses_are_detected_if_they_become_visible() -> None:
    oracle = oracle_of("MERGE", OverTable())
    run(oracle)
    assert not oracle.broken_over_table(MADE)
    refused = (Row(1, 21, DAY),)
    seen = Seen({1: DONE, 2: DONE}, refused, {1: (Row(1, 10, 0),), 2: refused})
    with pytest.raises(Unexpected, match="rule OVER TABLE"):
        oracle.take(MADE, {2: [Option(DONE, Made(refused, refused))]}, seen)


def oracle_of_late_rows(*, closed: tuple[Part, ...] = (), made: tuple[Part, ...] = ()) -> Oracle:
    """Return tables after a run in which the second slice closes the first window and the third reopens it."""
    closes = Closes("time", lateness=2)
    tables = {
        RAW: Declared("COLLECT", RAW, "PARTITIONED"),
        CLOSED: Declared("TRANSFORM", CLOSED, "PARTITIONED", parts=[closes, *closed], reads=(Read("UNTIL", RAW, 1),)),
        MADE: Declared("TRANSFORM", MADE, "PARTITIONED", parts=[*made], reads=(Read("PLAIN", CLOSED),)),
    }
    for table in tables.values():
        table.shapes = dict.fromkeys(tables, "PARTITIONED")
    oracle = Oracle(tables, today=4)
    oracle.begin()
    for label, row in {1: Row(1, 10, 0), 2: Row(2, 12, DAY), 3: Row(3, 9, 5)}.items():
        oracle.books[RAW].take(label, Option(DONE, Made((row,), (row,))))
    oracle.close(CLOSED, None)
    assert oracle.closed[CLOSED, 1] == Closed(4, 3)
    return oracle


def results(oracle: Oracle, name: str) -> list[tuple[str | None, list[int]]]:
    """Return the possible results of a table's first label: status and visible values."""
    found = [(it.status, it.shown.stay if it.shown else ()) for it in oracle.options(name)[1]]
    return [(status, [row.v for row in rows]) for status, rows in dict.fromkeys(found)]


def test_a_window_that_opens_again_in_its_run_may_keep_the_rows_of_before() -> None:
    refused = [(FAILED, []), (FAILED, [10, 12])]
    assert results(oracle_of_late_rows(closed=(Fail(),)), CLOSED) == refused
    oracle = oracle_of_late_rows(made=(Fail(),))
    assert results(oracle, CLOSED) == [(DONE, [10, 12, 9])]
    oracle.take(CLOSED, oracle.options(CLOSED), None)
    assert results(oracle, MADE) == refused
    oracle.begin()  # in another run the window is no longer open
    assert results(oracle, MADE) == refused[:1]
    oracle = oracle_of_late_rows(made=(Report(),))
    oracle.take(CLOSED, oracle.options(CLOSED), None)
    assert results(oracle, MADE) == [(DONE, [10, 12, 9]), (DONE, [10, 12])]
