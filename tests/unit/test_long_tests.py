"""Which commits run a long test or a case of a sampled one; the soak runs them all."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

import tests.conftest as selection
from tests.soaks import SOAKS, soak_number

LONG = "tests/faults/test_x.py::test_a[1]"


def item(nodeid: str, sampled: pytest.Mark | None = None) -> Any:
    markers: list[Any] = []
    return SimpleNamespace(
        nodeid=nodeid, markers=markers, add_marker=markers.append, get_closest_marker=lambda _: sampled
    )


def config_without(left_out: set[str]) -> Any:
    """Return a configuration that adds the names of deselected tests to a set."""

    def deselect(items: list[Any]) -> None:
        left_out.update(each.nodeid for each in items)

    return SimpleNamespace(hook=SimpleNamespace(pytest_deselected=deselect))


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"tests/faults/test_x.py": 99.0, LONG: 3.0, "tests/faults/test_x.py::test_b": 2.9}
    monkeypatch.setattr(selection, "recorded", lambda _: seconds)


def is_left_out(nodeid: str, commit: int = 0, *, is_soak: bool = False, sampled: pytest.Mark | None = None) -> bool:
    test = item(nodeid, sampled)
    selection.leave_to_other_commits([test], commit, is_soak=is_soak)
    return bool(test.markers)


def cases_of(sampled: pytest.MarkDecorator, commit: int, seed: int = 0) -> set[str]:
    tests = [item(f"{LONG[:-2]}{number}]", sampled.mark) for number in range(7)]
    Random(seed).shuffle(tests)
    selection.leave_to_soak(tests, commit)
    return {test.nodeid for test in tests if not test.markers}


@pytest.mark.usefixtures("recorded")
def test_a_long_test_is_run_by_one_commit_of_four_and_by_each_soak() -> None:
    commits = range(selection.COMMITS_OF_LONG * 3)
    assert sum(not is_left_out(LONG, commit) for commit in commits) == 3
    assert is_left_out(LONG, is_soak=True)  # it is marked soak, which the soak selects


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("name", ["tests/faults/test_x.py::test_b", "tests/faults/test_x.py::test_new"])
def test_each_commit_runs_unrecorded_tests_and_those_that_are_not_long(name: str) -> None:
    assert not any(is_left_out(name, commit) for commit in range(selection.COMMITS_OF_LONG))
    assert not is_left_out(name, is_soak=True)


@pytest.mark.usefixtures("recorded")
def test_recorded_long_tests_are_deselected_and_reported_to_pytest() -> None:
    left_out: set[str] = set()
    items = [item(LONG), item(f"{LONG}x")]
    selection.leave_out_costly(config_without(left_out), items)
    assert [each.nodeid for each in items] == [f"{LONG}x"]
    assert left_out == {LONG}


def test_a_test_runs_the_same_cases_whatever_their_order() -> None:
    kept = cases_of(pytest.mark.sampled(2), 0)
    assert len(kept) == 2
    assert all(cases_of(pytest.mark.sampled(2), commit, seed) == kept for commit in range(3) for seed in range(5))


@pytest.mark.usefixtures("recorded")
def test_a_test_by_commit_runs_others_in_the_next_also_where_they_are_long() -> None:
    by_commit = pytest.mark.sampled(2, by_commit=True)
    kept = [cases_of(by_commit, commit) for commit in range(7)]
    assert all(len(each) == 2 for each in kept)
    assert all(one != other for one, other in pairwise(kept))
    assert len(set().union(*kept)) == 7
    assert kept[3] == cases_of(by_commit, 3, seed=4)
    assert not any(is_left_out(LONG, commit, sampled=by_commit.mark) for commit in range(selection.COMMITS_OF_LONG))


def test_without_a_repository_the_number_of_the_commit_is_zero(tmp_path: Path) -> None:
    assert selection.commit_number(tmp_path) == 0


def test_four_soaks_run_each_case_of_a_sampled_test_once_and_all_other_tests_each() -> None:
    sampled = [item(f"{LONG[:-2]}{number}]", pytest.mark.sampled(2).mark) for number in range(30)]
    by_commit = item("x.py::test_lives[1]", pytest.mark.sampled(2, by_commit=True).mark)
    runs: Counter[str] = Counter()
    for number in range(SOAKS):
        items = [item("x.py::test_long"), by_commit, *sampled]
        Random(number).shuffle(items)
        selection.leave_to_other_soaks(config_without(set()), items, number)
        assert len(items) in {2 + 7, 2 + 8}
        runs.update(each.nodeid for each in items)
    assert runs.pop("x.py::test_long") == runs.pop(by_commit.nodeid) == SOAKS
    assert runs == {each.nodeid: 1 for each in sampled}


@pytest.mark.parametrize("wrong", ["4", "-1", "x", "01"])
def test_the_number_of_a_soak_is_one_from_0_to_3(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_SOAK", "3")
    assert soak_number() == 3
    monkeypatch.setenv("WATERCLOCK_SOAK", "")
    assert soak_number() is None
    monkeypatch.setenv("WATERCLOCK_SOAK", wrong)
    with pytest.raises(ValueError, match="WATERCLOCK_SOAK"):
        soak_number()
