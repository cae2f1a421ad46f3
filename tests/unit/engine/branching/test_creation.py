"""Creating a branch costs the same for a short and a long history, except for the bytes of its ledger's file."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import FOREVER
from waterclock.engine.branching.creation import create_branch
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


def work_of_creation(history: Any, folder: Path, hours: int) -> tuple[int, int, int]:
    """Create a branch of a project with a history. Return SQLite's instructions, the statements, and the labels."""
    root = history.make(folder, TABLES, START)
    with (root / "waterclock.toml").open("a") as file:
        file.write('\n[env.try]\nfrom = "dev"\n')
    history.fill(f"sqlite:///{root}/.waterclock/ledger.db", open_project(root, "dev").flow, START, hours)
    project = open_project(root, "try")
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
        create_branch(project, tick=None, now=START, days=7, who="a test")
    finally:
        sa.event.remove(sa.Engine, "connect", connected)
        sa.event.remove(sa.Engine, "before_cursor_execute", executed)
    with Ledger.open(f"sqlite:///{project.storage}/ledger.db") as ledger:
        labels = sum(len(ledger.past.made_labels(name, START, FOREVER)) for name in project.flow.tables)
    return counts["steps"], counts["statements"], labels


def test_the_work_is_the_same_for_a_hundred_times_the_history(history: Any, tmp_path: Path) -> None:
    steps, statements, labels = work_of_creation(history, tmp_path / "short", SHORT)
    assert labels == TABLES * SHORT
    more_steps, more_statements, more_labels = work_of_creation(history, tmp_path / "long", LONG)
    assert more_labels == TABLES * LONG
    assert more_statements == statements
    # trees may be a level deeper; the rows themselves would take a hundred times the steps
    assert 0 < more_steps <= 1.2 * steps
