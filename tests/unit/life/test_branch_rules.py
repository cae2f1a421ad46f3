"""Branches in the oracle of random lives: the tables and labels they make, and how they differ from production."""

from __future__ import annotations

from copy import deepcopy

import pytest

from tests.life.books import Option
from tests.life.branch_rules import (
    Difference,
    branch_options,
    differences,
    newest_labels,
    own_tables,
    request_newest,
    start_branch,
)
from tests.life.branching import has_branch
from tests.life.declarations import Declared
from tests.life.favour import LIVES
from tests.life.lives import lived
from tests.life.oracle import Oracle
from tests.life.part import DONE, FAILED, HELD, Part, Read
from tests.life.parts import Hold, KeyOnce, Report, Retain
from tests.life.rows import DAY, Row
from tests.unit.life.test_oracle import MADE, RAW, oracle_of, run, shown


def branch_of(*parts: Part, today: int = 11) -> tuple[Oracle, Oracle]:
    """Return production and a branch that adds 100 to the values of a table."""
    production = oracle_of("PARTITIONED", *parts, today=today)
    run(production)
    branch = deepcopy(production)
    start_branch(branch)
    branch.tables[MADE].code = 100
    return production, branch


def make(branch: Oracle) -> None:
    newest = newest_labels(branch, MADE, [MADE])
    request_newest(branch, MADE, newest)
    branch.begin()
    branch.take(MADE, branch_options(branch, MADE, newest), None)


def test_a_branch_makes_the_changed_table_and_all_that_read_it() -> None:
    tables = [
        Declared("COLLECT", "raw.a", "PARTITIONED"),
        Declared("TRANSFORM", "made.a", "PARTITIONED", reads=(Read("PLAIN", "raw.a"),)),
        Declared("TRANSFORM", "made.b", "MERGE", reads=(Read("PLAIN", "raw.a"),)),
        Declared("TRANSFORM", "made.c", "MERGE", reads=(Read("PLAIN", "raw.a"),), odd=(Read("PREVIOUS", "made.a"),)),
        Declared("TRANSFORM", "made.each", "MERGE", reads=(Read("PLAIN", "made.c"),), answers=(Row(1, 1, 1),)),
        Declared("TRANSFORM", "made.d", "MERGE", reads=(Read("PLAIN", "made.each"),)),
        Declared("PUBLISH", "out.p", "MERGE", of="made.d"),
    ]
    flow = {table.name: table for table in tables}
    assert own_tables(flow, "made.a") == ["made.a", "made.c", "made.d"]
    assert own_tables(flow, "made.b") == ["made.b"]


def test_a_branch_makes_the_newest_seven_windows_that_production_has_made() -> None:
    production, branch = branch_of()
    assert newest_labels(branch, MADE) == list(range(4, 11))
    branch.today += 3
    assert newest_labels(branch, MADE) == list(range(4, 11))
    branch.books[MADE].shown.clear()  # never made: the labels of its inputs
    assert newest_labels(branch, MADE) == list(range(4, 11))
    branch.books[RAW].shown.clear()
    assert newest_labels(branch, MADE) == []
    before = deepcopy(production.books)
    production, branch = branch_of(today=4)
    make(branch)
    assert shown(branch) == {1: [110], 2: [111], 3: [112]}
    assert shown(production) == {1: [10], 2: [11], 3: [12]}
    assert before[MADE].shown[3].stay == production.books[MADE].shown[3].stay


def state_oracle() -> Oracle:
    """Return production with the states of two days."""
    production = oracle_of("REPLACE", today=3)
    production.tables[MADE].reads = (Read("HISTORY", RAW),)
    run(production)
    return production


def state_of(production: Oracle, *, tick: int) -> dict[int, list[Option]]:
    """Return the options of the states of a branch whose tick is some days after the last run of its base."""
    branch = deepcopy(production)
    start_branch(branch)
    branch.today = tick
    branch.source[RAW][0] = Row(1, 50, 0)
    branch.ask(RAW, 1, "recollect")
    branch.begin()
    branch.take(RAW, {1: branch.options(RAW)[1]}, None)
    labels = newest_labels(branch, MADE, [MADE])
    request_newest(branch, MADE, labels)
    return branch_options(branch, MADE, labels)


def rows_of(options: list[Option]) -> list[list[int]]:
    return [[row.v for row in it.shown.stay] if it.shown else [] for it in options]


def test_the_newest_state_is_made_whether_or_not_production_has_made_that_of_the_tick() -> None:
    production = state_oracle()
    assert list(shown(production)) == [2]
    for tick in (3, 4):
        assert rows_of(state_of(production, tick=tick)[2]) == [[11, 50]], "it follows its inputs"
        assert 3 not in state_of(production, tick=tick), "production has made no input for the state at the tick"
    production.tables[MADE].code = 100
    assert rows_of(state_of(production, tick=4)[2]) == [[111, 150]]
    production.books[MADE].shown.clear()
    production.books[MADE].status.clear()
    made = state_of(production, tick=4)
    assert (rows_of(made[2]), rows_of(made[1])) == ([[111, 150]], [[], [150]]), "older ones where they are read"


def test_a_newest_state_whose_inputs_may_change_may_wait() -> None:
    production = state_oracle()
    production.books[RAW].status[1] = FAILED
    branch = deepcopy(production)
    branch.today = 4
    branch.begin()
    assert branch.books[MADE].option(2) in branch_options(branch, MADE, [2])[2]


def test_batches_failed_or_held_in_production_are_tried_with_the_code_of_the_branch() -> None:
    production = oracle_of("PARTITIONED", Hold(), today=4)
    production.source[RAW][1:3] = [Row(1, 27, DAY), Row(1, 27, 2 * DAY)]
    run(production)
    assert production.books[MADE].status == {1: DONE, 2: HELD, 3: HELD}
    branch = deepcopy(production)
    start_branch(branch)
    assert newest_labels(branch, MADE) == [1], "of a borrowed table"
    branch.tables[MADE].parts.clear()
    branch.tables[MADE].code = 100
    make(branch)
    assert shown(branch) == {1: [110], 2: [127], 3: [127]}
    states = state_oracle()
    states.books[MADE].status[2] = FAILED
    assert rows_of(state_of(states, tick=4)[2]) == [[11, 50]]


def test_labels_before_the_newest_ones_keep_the_rows_of_production() -> None:
    _, branch = branch_of()
    make(branch)
    assert shown(branch) == {1: [10], 2: [11], 3: [12], 4: [113], 5: [114]} | {label: [] for label in range(6, 11)}


def test_a_branch_follows_restatements_that_production_only_reports() -> None:
    production, branch = branch_of(Report(), today=4)
    branch.tables[MADE].code = 0
    branch.source[RAW][0] = Row(1, 50, 0)
    branch.ask(RAW, 1, "recollect")
    run(branch)
    assert shown(branch)[1] == [50]
    assert shown(production)[1] == [10]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [((), Difference(1, 2, 2, 1)), ((KeyOnce(),), Difference(1, 2, 1, 0, 1))],
)
def test_labels_differ_by_key_or_as_multisets(parts: tuple[Part, ...], expected: Difference) -> None:
    production, branch = branch_of(*parts, today=4)
    assert differences(production, branch, MADE) == {}
    made = branch.books[MADE].shown
    made[2] = deepcopy(made[2])
    object.__setattr__(made[2], "stay", (Row(1, 7, 1), Row(2, 8, 1)))
    del made[3]
    assert differences(production, branch, MADE) == {2: expected, 3: Difference(1, None)}


def test_labels_that_retain_drops_on_one_side_are_not_compared() -> None:
    production, branch = branch_of(Retain(3), today=5)
    make(branch)
    assert set(differences(production, branch, MADE)) == {2, 3, 4}
    production.today += 1
    run(production)
    assert set(differences(production, branch, MADE)) == {3, 4, 5}


def test_a_day_has_at_most_one_life_with_a_branch() -> None:
    assert sum(has_branch(seed) for seed in range(4 * LIVES)) == 115
    names = sorted(map(str, range(LIVES)))
    neighbours = zip(names, [*names[1:], names[0]], strict=True)
    assert not any(has_branch(int(one)) and has_branch(int(other)) for one, other in neighbours)


def test_a_life_without_a_branch_is_the_same_until_a_promotion() -> None:
    plain, branched = lived(12), lived(12, with_branch=True)
    assert branched.had_branch
    begun = next(n for n, line in enumerate(branched.story) if "in a branch" in line)
    assert branched.story[:begun] == plain.story[:begun]
    assert {word for what, word in branched.pairs - plain.pairs if what == "op changed in a branch"}
