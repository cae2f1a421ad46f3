"""Batches that may restore an earlier revision instead of computing it. No Spark, no ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.ledgers import SOMEWHERE, day, table
from tests.unit.engine.fakes import batch, collect
from tests.unit.planner.test_reverting import read, revision
from waterclock.batches.ledger_snapshot import FOLLOW, RECOMPUTE, Missing
from waterclock.flow.declarations import Rule
from waterclock.flow.enums import Action, Kind, Scope
from waterclock.flow.measures import GIVEN_UP, MeasureComparison
from waterclock.planner.adopting import find_equal_revisions, has_repeatable_rows, is_repeated

CLEAN = table("clean.orders", partitioned=True)
AGAIN = replace(batch("clean.orders", 1), is_revision=True)


def rule(**more: Any) -> Rule:
    values: dict[str, Any] = {
        "name": "r",
        "expression": "amount > 0",
        "place": SOMEWHERE,
        "scope": Scope.ROW,
        "action": Action.WARN,
    } | more
    return Rule(**values)


@pytest.mark.parametrize(
    ("of", "is_repeatable"),
    [
        pytest.param(CLEAN, True, id="a transform"),
        pytest.param(replace(CLEAN, rules=(rule(),)), True, id="a rule on its rows"),
        pytest.param(replace(CLEAN, rules=(rule(scope=Scope.TABLE),)), False, id="a rule on the whole table"),
        pytest.param(
            replace(CLEAN, rules=(rule(scope=Scope.BATCH, comparison=MeasureComparison(())),)),
            False,
            id="a comparing rule",
        ),
        pytest.param(collect("shop.orders"), False, id="a collect"),
        pytest.param(table("out.orders", kind=Kind.PUBLISH, reads=("clean.orders",)), False, id="a publish"),
        pytest.param(replace(CLEAN, open_of="marts.hours"), False, id="open windows"),
    ],
)
def test_rows_are_repeatable_if_they_depend_on_code_window_and_inputs_alone(of: Any, *, is_repeatable: bool) -> None:
    assert has_repeatable_rows(of) is is_repeatable


@pytest.mark.parametrize(
    ("of", "is_found"),
    [
        pytest.param(AGAIN, True, id="its inputs changed"),
        pytest.param(replace(AGAIN, verb=FOLLOW), True, id="it follows its inputs"),
        pytest.param(replace(AGAIN, verb=RECOMPUTE), False, id="a user wants it computed"),
        pytest.param(replace(AGAIN, is_revision=False), False, id="its first batch"),
        pytest.param(replace(AGAIN, missing=(Missing("shop.orders", day(1), day(2)),)), False, id="without an input"),
        pytest.param(replace(AGAIN, stands_from=day(0)), False, id="a snapshot"),
    ],
)
def test_only_batches_that_are_made_again_for_their_inputs_take_slices_back(of: Any, *, is_found: bool) -> None:
    assert is_repeated(of) is is_found


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"is_current": True}, id="the current one"),
        pytest.param({"code": "older"}, id="older code"),
        pytest.param({"digest": None}, id="without a digest"),
        pytest.param({"measures": {"released": {"by": "ann"}}}, id="released despite a rule"),
        pytest.param({"measures": {"warnings": [GIVEN_UP]}}, id="given up"),
        pytest.param({"source": {"missing": []}}, id="made without an input"),
        pytest.param({"inputs": (read(content="9.9"),)}, id="other inputs"),
        pytest.param({"stands_from": day(0)}, id="a snapshot"),
    ],
)
def test_the_newest_equal_revision_is_found_and_no_other(other: dict[str, Any]) -> None:
    made = [revision(10, read()), revision(20, read()), replace(revision(30, read()), **other)]
    found = find_equal_revisions(made, [read()], "c".__eq__)
    assert [each.claim for each in found] == [20, 10]
