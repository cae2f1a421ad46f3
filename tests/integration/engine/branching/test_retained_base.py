"""RETAIN drops borrowed windows: first from production's tables, and after KEEP VERSIONS from the disk.

Branches do not prevent this, neither within their lease nor when they are forgotten. A branch has all rows of its
moment, or reports that they are missing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.branches import Branched
from tests.tiny import day, described, labels
from waterclock.engine.branching.base_checks import require_lease
from waterclock.engine.branching.creation import record_new_branch
from waterclock.engine.maintenance.maintain import find_maintenance, maintain_table
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.sales PARTITIONED (id BIGINT KEY, v BIGINT, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at
  RETAIN 2 DAYS KEEP VERSIONS 7 DAYS;
TRANSFORM marts.net PARTITIONED RETAIN 2 DAYS KEEP VERSIONS 7 DAYS AS SELECT id, v * {factor} AS v FROM shop.sales;
"""
TABLES = ("shop.sales", "marts.net")
ROWS = [(n, n + 1, f"2020-01-{n + 1:02d} 08:00:00") for n in range(5)]
NOW, LATER = day(4), day(6)


def run(production: Branched, now: datetime) -> None:
    outcome = production.run(now)
    assert not outcome.failed, described(outcome)


def maintain(production: Branched, now: datetime) -> None:
    with production.opened() as work:
        found = find_maintenance(work, list(work.flow.tables), now)
        for each in found:
            maintain_table(work, each, now)
    assert not [each.failed for each in found if each.failed]


def files_of(production: Branched) -> list[str]:
    """Return the data files of production's sealed slices on disk."""
    tables = production.root / ".prod" / "tables"
    return sorted(path.relative_to(tables).as_posix() for path in tables.rglob("*.parquet") if "_stage" in path.parts)


def values(project: Branched, table: str) -> list[tuple[Any, ...]]:
    return sorted(project.rows(f"SELECT timelabel, v FROM {table}"))


def expected(factor: int, *days: int) -> list[tuple[Any, ...]]:
    return [(labels(number)[0], number * factor) for number in days]


@pytest.fixture
def production(tmp_path: Path, spark: SparkSession) -> Branched:
    """Return a production with three days, and the changed flow in its files."""
    found = Branched(tmp_path / "project", spark)
    found.declare(FLOW.format(factor=1))
    found.source("sales", "id INTEGER, v INTEGER, at TEXT", ROWS)
    run(found, NOW)
    return found


def test_retain_is_not_blocked_by_branches_and_none_shows_other_rows(production: Branched, tmp_path: Path) -> None:
    alone = production.copied(tmp_path / "alone")
    for name in ("unmade", "made", "partly"):
        record_new_branch(production.root, name, "prod")
    unmade, made, partly = (production.of(name) for name in ("unmade", "made", "partly"))
    now = datetime.now(UTC)
    production.declare(FLOW.format(factor=10))
    unmade.create(NOW)
    made.create(NOW)
    made.make()
    state = partly.create(NOW, now=now - timedelta(days=9), days=2)  # forgotten
    partly.make(labels="2020-01-03")
    with pytest.raises(WaterclockError, match="E474"):
        require_lease(state, now)
    production.declare(FLOW.format(factor=1))
    before = files_of(production)

    # production continues: within KEEP VERSIONS, rows leave its tables while their files stay
    for project in (production, alone):
        run(project, LATER)
        maintain(project, now)
    for table in TABLES:
        assert values(production, table) == values(alone, table) == expected(1, 4, 5)
    assert set(before) <= set(files_of(production))
    production.declare(FLOW.format(factor=10))
    assert values(unmade, "shop.sales") == values(made, "shop.sales") == expected(1, 2, 3)
    assert values(unmade, "marts.net") == expected(1, 2, 3)
    assert values(made, "marts.net") == expected(10, 2, 3)
    assert values(partly, "marts.net") == [*expected(1, 2), *expected(10, 3)]

    # after it, the files are removed as if there were no branch
    production.declare(FLOW.format(factor=1))
    for project in (production, alone):
        maintain(project, now + timedelta(days=30))
    assert len(files_of(production)) == len(files_of(alone))
    assert not set(before) & set(files_of(production))
    production.declare(FLOW.format(factor=10))
    assert values(made, "marts.net") == expected(10, 2, 3), "a branch has the rows that it made"
    for branch, table in ((unmade, "shop.sales"), (unmade, "marts.net"), (made, "shop.sales"), (partly, "marts.net")):
        with pytest.raises(WaterclockError, match="E475") as raised:
            branch.rows(f"SELECT timelabel, v FROM {table}")
        assert f"waterclock branch delete {branch.env}" in str(raised.value.fix)
    with pytest.raises(AssertionError, match="E475"):
        unmade.make(labels="2020-01-02")
