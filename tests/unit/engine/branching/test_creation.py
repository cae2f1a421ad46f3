"""Creating and promoting a branch cost the same for any history, except for the bytes of its ledger's file."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import FOREVER
from waterclock.dpl.project import Project
from waterclock.engine.branching.creation import create_branch
from waterclock.engine.branching.promotion import read_offered_revisions
from waterclock.ledger.ledger import Ledger
from waterclock.operations.project_opening import open_project

BENCH = Path(__file__).parents[4] / "bench"
START = datetime(2013, 1, 1, tzinfo=UTC)
TABLES = 10
SHORT, LONG = 4, 400
EVERY = 20  # instructions of SQLite's virtual machine between two counts


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(BENCH)
    yield importlib.import_module("scale_history")
    sys.modules.pop("scale_history", None)


def project_with_history(history: Any, folder: Path, hours: int) -> Project:
    """Return a branch, not created yet, of a project with a history."""
    root = history.make(folder, TABLES, START)
    with (root / "waterclock.toml").open("a") as file:
        file.write('\n[env.try]\nfrom = "dev"\n')
    history.fill(f"sqlite:///{root}/.waterclock/ledger.db", open_project(root, "dev").flow, START, hours)
    return open_project(root, "try")


def work_of(work: Callable[[], object]) -> tuple[int, int]:
    """Return SQLite's instructions and the number of statements of a call."""
    counts = {"steps": 0, "statements": 0}

    def count_step() -> None:
        counts["steps"] += EVERY

    def connected(connection: Any, _record: object) -> None:
        connection.set_progress_handler(count_step, EVERY)

    def executed(*_: object) -> None:
        counts["statements"] += 1

    sa.event.listen(sa.Engine, "connect", connected)
    sa.event.listen(sa.Engine, "before_cursor_execute", executed)
    try:
        work()
    finally:
        sa.event.remove(sa.Engine, "connect", connected)
        sa.event.remove(sa.Engine, "before_cursor_execute", executed)
    return counts["steps"], counts["statements"]


def work_of_creation(history: Any, folder: Path, hours: int) -> tuple[int, int, int]:
    """Create a branch of a project with a history. Return SQLite's instructions, the statements, and the labels."""
    project = project_with_history(history, folder, hours)
    steps, statements = work_of(lambda: create_branch(project, tick=None, now=START, days=7, who="a test"))
    with Ledger.open(f"sqlite:///{project.storage}/ledger.db") as ledger:
        labels = sum(len(ledger.past.made_labels(name, START, FOREVER)) for name in project.flow.tables)
    return steps, statements, labels


def statements_of_promotion(history: Any, folder: Path, hours: int) -> int:
    """Return the statements that read a branch's offer, for a table of its own with unchanged code and this history."""
    project, now = project_with_history(history, folder, hours), START + timedelta(hours=hours + 1)
    create_branch(project, tick=None, now=now, days=7, who="a test")
    with Ledger.open(f"sqlite:///{project.storage}/ledger.db") as ledger:
        ledger.maintenance.own_tables({"mart.joined0": "tables/mart/joined0"}, who="a test")
        assert len(ledger.past.made_labels("mart.joined0", START, FOREVER)) == hours
        assert ledger.past.made_labels("mart.joined0", START, FOREVER, after=now) == []
    return work_of(lambda: read_offered_revisions(project, project.flow))[1]


def test_the_work_is_the_same_for_a_hundred_times_the_history(history: Any, tmp_path: Path) -> None:
    steps, statements, labels = work_of_creation(history, tmp_path / "short", SHORT)
    assert labels == TABLES * SHORT
    more_steps, more_statements, more_labels = work_of_creation(history, tmp_path / "long", LONG)
    assert more_labels == TABLES * LONG
    assert more_statements == statements
    # trees may be a level deeper; the rows themselves would take a hundred times the steps
    assert 0 < more_steps <= 1.2 * steps


def test_a_promotion_does_not_read_the_copied_history(history: Any, tmp_path: Path) -> None:
    statements = statements_of_promotion(history, tmp_path / "short", SHORT)
    assert statements_of_promotion(history, tmp_path / "long", LONG) == statements
