"""Which commits run a long test, and that the soak runs each."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tests.conftest as selection

LONG = "tests/faults/test_x.py::test_a[1]"


def item(nodeid: str) -> Any:
    markers: list[Any] = []
    return SimpleNamespace(nodeid=nodeid, markers=markers, add_marker=markers.append)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"tests/faults/test_x.py": 99.0, LONG: 3.0, "tests/faults/test_x.py::test_b": 2.9}
    monkeypatch.setattr(selection, "recorded", lambda: seconds)


def is_left_out(nodeid: str, commit: int | None) -> bool:
    test = item(nodeid)
    selection.leave_to_other_commits([test], commit)
    return bool(test.markers)


@pytest.mark.usefixtures("recorded")
def test_a_long_test_is_run_by_one_commit_of_four_and_by_each_soak() -> None:
    commits = range(selection.COMMITS_OF_LONG * 3)
    assert sum(not is_left_out(LONG, commit) for commit in commits) == 3
    assert is_left_out(LONG, None)  # it is marked soak, which the soak selects


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("name", ["tests/faults/test_x.py::test_b", "tests/faults/test_x.py::test_new"])
def test_each_commit_runs_what_is_not_long_or_was_never_recorded(name: str) -> None:
    assert not any(is_left_out(name, commit) for commit in (*range(selection.COMMITS_OF_LONG), None))


def test_without_a_repository_the_number_of_the_commit_is_zero(tmp_path: Path) -> None:
    assert selection.commit_number(tmp_path) == 0
