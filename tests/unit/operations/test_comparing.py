"""A branch is compared with its base without reading revisions of borrowed tables, unless the base changed them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.engine.branching.test_creation import BENCH, START, TABLES, project_with_history
from waterclock.dpl.project import Project
from waterclock.engine.branching.creation import create_branch
from waterclock.engine.query.compared_revisions import read_table_revisions
from waterclock.ledger.ledger import Ledger
from waterclock.operations import compared_environment, comparing
from waterclock.operations.comparing import ComparedTable, ComparisonRequest, compare_tables
from waterclock.operations.project_opening import open_project
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest

HOURS = 5
NOW = START + timedelta(hours=HOURS + 1)
OWN, CHANGED = "mart.total0", "mart.best0"


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(BENCH)
    yield importlib.import_module("scale_history")
    sys.modules.pop("scale_history", None)


@pytest.fixture
def branch(history: Any, tmp_path: Path) -> Project:
    """Return a branch of a project with a history, which owns one table."""
    project = project_with_history(history, tmp_path / "project", HOURS)
    create_branch(project, tick=None, now=NOW, days=7, who="a test")
    with Ledger.open(f"sqlite:///{project.storage}/ledger.db") as ledger:
        ledger.maintenance.own_tables({OWN: "tables/mart/total0"}, who="a test")
    return project


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the tables whose revisions were read, on either side."""
    found = list[str]()

    def read(ledger: Ledger, table: Any, *bounds: Any) -> Any:
        found.append(table.name)
        return whole(ledger, table, *bounds)

    whole = read_table_revisions
    for module in (comparing, compared_environment):
        monkeypatch.setattr(module, "read_table_revisions", read)
    return found


def compare(branch: Project, **request: Any) -> dict[str, ComparedTable]:
    """Compare with the base. Labels with equal digests are never read, so Spark is not started."""
    base = open_project(branch.root, "dev")
    found = compare_tables(branch, ComparisonRequest(against=base, **request))
    assert not found.has_failed
    return {each.name: each for each in found.tables}


def make_again(history: Any, branch: Project, name: str) -> None:
    """Make the first label of a table again in the base, with the same rows."""
    flow = open_project(branch.root, "dev").flow
    with Ledger.open(f"sqlite:///{branch.root}/.waterclock/ledger.db", clock=history.Clock(NOW)) as ledger:
        ledger.decisions.request_restate(name, [START], "recompute", who="a test")
        [group] = Planner(flow).ready(
            ledger.reads.snapshot(flow), START + history.HOUR, PlanRequest(clock=ledger.now())
        )
        assert group.table == name
        history.record(ledger, history.take(ledger, flow, group, NOW))


def equal_labels(tables: dict[str, ComparedTable]) -> set[int]:
    return {0 if each.found is None else each.found.equal for each in tables.values()}


def test_borrowed_tables_that_did_not_change_are_not_read(branch: Project, read: list[str]) -> None:
    found = compare(branch)
    assert len(found) == TABLES
    assert equal_labels(found) == {HOURS}
    assert read == [OWN, OWN]


def test_a_table_that_the_base_made_again_is_read(history: Any, branch: Project, read: list[str]) -> None:
    make_again(history, branch, CHANGED)
    assert equal_labels(compare(branch)) == {HOURS}
    assert sorted(read) == [CHANGED, CHANGED, OWN, OWN]


def test_a_table_with_a_new_label_in_the_base_is_read_unless_other_labels_are_compared(
    history: Any, branch: Project, read: list[str]
) -> None:
    flow = open_project(branch.root, "dev").flow
    with Ledger.open(f"sqlite:///{branch.root}/.waterclock/ledger.db", clock=history.Clock(NOW)) as ledger:
        history.run(ledger, flow, NOW)
    compared = compare(branch)[CHANGED].found
    assert compared is not None
    assert [(each.label, each.before, each.after) for each in compared.labels] == [
        (START + HOURS * history.HOUR, 1000, None)
    ]
    assert read.count(CHANGED) == 2
    read.clear()
    labels = f"{START:%Y-%m-%dT%H:%M}..{START + (HOURS - 1) * history.HOUR:%Y-%m-%dT%H:%M}"
    assert equal_labels(compare(branch, labels=labels)) == {HOURS}
    assert CHANGED not in read
