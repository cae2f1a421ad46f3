"""Production continues while a branch of it exists: the branch has the rows, files and claims of its creation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.branches import Branched
from tests.tiny import day, described
from waterclock.engine.maintenance.reset import prepare_reset, reset
from waterclock.engine.query.value_samples import SampledValues, sample_values
from waterclock.engine.run_opening import open_workplace
from waterclock.engine.spark.session import Sessions
from waterclock.errors import WaterclockError
from waterclock.operations.data_files import data_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "k INTEGER, v INTEGER, at TEXT"
FLOW = """
COLLECT raw.o PARTITIONED (k BIGINT KEY, v BIGINT, at TIMESTAMP) FROM shop.o EVERY DAY BY DATA TIME at;
TRANSFORM marts.net PARTITIONED AS SELECT k, v * {factor} AS v FROM raw.o;
TRANSFORM marts.newest (k KEY, *) MERGE AS SELECT k, v * {factor} AS v FROM raw.o;
TRANSFORM marts.later PARTITIONED (k BIGINT KEY, v BIGINT) AS SELECT k, v + 1 AS v FROM raw.o;
"""
MADE_AT_FIRST = ("raw.o", "marts.net", "marts.newest")


def files_of(branch: Branched, table: str) -> list[str]:
    sessions = Sessions.from_session(branch.spark)
    with open_workplace(branch.load(), sessions=sessions, is_question=True) as work:
        return [each.path for each in data_files(work, table).files]


def run(project: Branched, now: datetime, only: Sequence[str] | None = None) -> None:
    outcome = project.run(now) if only is None else project.run(now, only=only)
    assert not outcome.failed, described(outcome)


def fill(project: Branched, *values: int) -> None:
    """Fill the source with two rows of the first day, one of the second, and none of the third."""
    days = (1, 1, 2)
    project.source("o", COLUMNS, [(k, v, f"2020-01-{days[k]:02d} 08:00:00") for k, v in enumerate(values)])


def test_a_branch_keeps_its_moment_while_production_makes_tables_empty_batches_and_other_rows(
    tmp_path: Path, spark: SparkSession
) -> None:
    production = Branched(tmp_path / "project", spark)
    production.declare(FLOW.format(factor=1))
    fill(production, 1, 2, 3)
    run(production, day(3), MADE_AT_FIRST)
    branch = production.of("try")
    branch.create(day(3))
    files = files_of(branch, "raw.o")

    run(production, day(4))  # the third day has no rows, so its commits change none
    fill(production, 5, 6, 7)
    with production.ledger() as ledger:
        ledger.decisions.request_restate("raw.o", [day(1)], "recollect", who="a test")
    run(production, day(4))

    assert sorted(production.rows("SELECT k, v FROM marts.later")) == [(0, 6), (1, 7), (2, 4)]
    assert branch.rows("SELECT k, v FROM marts.later") == []
    assert files_of(branch, "marts.later") == []
    assert files_of(branch, "raw.o") == files
    assert files_of(production, "raw.o") != files
    assert sorted(branch.rows("SELECT k, v FROM raw.o")) == [(0, 1), (1, 2), (2, 3)]
    branch.declare(FLOW.format(factor=10))
    branch.make()
    for table in ("marts.net", "marts.newest"):
        assert sorted(branch.rows(f"SELECT k, v FROM {table}")) == [(0, 10), (1, 20), (2, 30)]
        assert sorted(production.rows(f"SELECT k, v FROM {table}")) == [(0, 5), (1, 6), (2, 3)]


@pytest.fixture
def production(tmp_path: Path, spark: SparkSession) -> Branched:
    """Return a production with two days."""
    found = Branched(tmp_path / "project", spark)
    found.declare(FLOW.format(factor=1))
    fill(found, 1, 2, 3)
    run(found, day(3))
    return found


@pytest.mark.parametrize(
    ("name", "renamed"),
    [
        ("marts.net", "TRANSFORM marts.clean PARTITIONED WAS marts.net AS"),
        pytest.param("raw.o", "COLLECT raw.orders PARTITIONED", marks=pytest.mark.soak),
    ],
)
def test_a_table_that_was_renamed_after_the_run_of_the_branch_is_promoted_whole(
    production: Branched, name: str, renamed: str
) -> None:
    """Otherwise a promotion would leave production with new code in some tables of the change, and not in others."""
    branch = production.of("try")
    branch.create(day(3))
    branch.declare(FLOW.format(factor=10))
    branch.make()
    _, now = renamed.split()[:2]
    changed = FLOW.format(factor=10).replace(name, now)
    changed = changed.replace(f"TRANSFORM {now} PARTITIONED AS", renamed)
    collected = f"FROM shop.o WAS {name} EVERY" if name == "raw.o" else "FROM shop.o EVERY"
    production.declare(changed.replace("FROM shop.o EVERY", collected))
    plan, _ = production.promote(branch, day(3))
    own = {now if each == name else each for each in ("marts.net", "marts.newest")}
    assert plan.adopted == dict.fromkeys(own, (day(1), day(2)))
    assert not plan.computed
    for table in own:
        assert sorted(production.rows(f"SELECT k, v FROM {table}")) == [(0, 10), (1, 20), (2, 30)]


def test_a_renamed_table_that_production_starts_over_is_reported(production: Branched) -> None:
    branch = production.of("try")
    branch.create(day(3))
    columns = "PARTITIONED (k BIGINT KEY, v BIGINT)"
    renamed = (f"marts.later {columns}", f"marts.now {columns} WAS marts.later")
    production.declare(FLOW.format(factor=1).replace(*renamed))
    run(production, day(3))
    assert sorted(branch.rows("SELECT k, v FROM marts.now")) == [(0, 2), (1, 3), (2, 4)]
    with production.opened() as work:
        found = prepare_reset(work, "marts.now")
        assert found is not None
        reset(work, found, why="wrong")
    with pytest.raises(WaterclockError, match="E475"):
        branch.rows("SELECT k, v FROM marts.now")


def test_personal_data_is_sampled_from_the_slices_of_the_branch(tmp_path: Path, spark: SparkSession) -> None:
    production = Branched(tmp_path / "project", spark)
    production.declare(FLOW.format(factor=1))
    fill(production, 1, 2, 3)
    run(production, day(3), MADE_AT_FIRST)
    branch = production.of("try")
    branch.create(day(3))
    production.shop("INSERT INTO o VALUES (3, 4, '2020-01-03 08:00:00')")
    run(production, day(4), MADE_AT_FIRST)
    branch.declare(FLOW.format(factor=10))
    branch.make("marts.net", labels="2020-01-01")
    for name in ("raw.o", "marts.net"):
        found = [sampled(project, name) for project in (production, branch)]
        assert [each and each.label for each in found] == [day(3), day(2)], name


def sampled(project: Branched, table: str) -> SampledValues | None:
    sessions = Sessions.from_session(project.spark)
    with open_workplace(project.load(), sessions=sessions, is_question=True) as work:
        return sample_values(work, table, 10)
