"""The history that bench/scale writes in bulk equals, row by row, the history that a runner writes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests import postgres
from tests.ledgers import require_sums
from waterclock.flow.declarations import Flow
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.store.schema import metadata
from waterclock.operations.project_opening import open_project

BENCH = Path(__file__).parents[2] / "bench"
START = datetime(2013, 1, 1, tzinfo=UTC)
HOURS = 5
BY_CHANCE = {"seconds", "applied_at", "created_at"}
OF_CONTENT = {"hash_high", "hash_low", "sum_high", "sum_low", "content", "slice_path", "data"}


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCH)
    yield importlib.import_module("scale_history")
    sys.modules.pop("scale_history", None)


@pytest.fixture
def made(history: Any, tmp_path: Path) -> Flow:
    return open_project(history.make(tmp_path / "project", 20, START), None).flow


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/moved.db", f"sqlite:///{tmp_path}/run.db"
    else:
        yield postgres.server().ledger_url(), postgres.server().ledger_url()


def test_bulk_written_hours_leave_the_same_rows_as_hours_that_were_run(
    history: Any, made: Flow, urls: tuple[str, str]
) -> None:
    moved, run = urls
    history.fill(moved, made, START, HOURS)
    clock = history.Clock(START)
    with Ledger.open(run, clock=clock) as ledger:
        ledger.declared.apply(made, who="bench", now=START, runner=history.RUNNER)
        for hour in range(HOURS):
            clock.at = START + (hour + 1) * history.HOUR
            history.run(ledger, made, clock.at)
        ours = rows_of(ledger)
    with Ledger.open(moved, clock=clock) as ledger:
        require_sums(ledger)
        found = rows_of(ledger)
        for name, rows in ours.items():
            assert found[name] == rows, name
        clock.at = START + (HOURS + 1) * history.HOUR
        assert history.run(ledger, made, clock.at) == len(made.tables)  # a runner continues after it


def rows_of(ledger: Ledger) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows, without columns that depend on the content of an hour or on the clock."""
    found = {}
    with ledger._database.read() as connection:
        for table in metadata.sorted_tables:
            columns = [column for column in table.columns if column.name not in BY_CHANCE | OF_CONTENT]
            rows = connection.execute(sa.select(*columns)).all()
            found[table.name] = sorted(tuple(map(str, row)) for row in rows)
    return found
