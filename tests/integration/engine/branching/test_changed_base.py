"""Production restates, maintains, renames, drops, reverts, rebuilds and resets borrowed tables, in each mode.

The branch then makes the rows of the versions that it borrowed, or reports that they are missing: never other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.branches import Branched
from tests.tiny import day, described
from waterclock.cli.actions.revert import commit_reverts
from waterclock.engine.maintenance.maintain import find_maintenance, maintain_table
from waterclock.engine.maintenance.rebuild import plan_rebuild, rebuild_table
from waterclock.engine.maintenance.reset import prepare_reset, reset
from waterclock.engine.maintenance.user_drop import drop, find_droppable_windows
from waterclock.errors import WaterclockError
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.reverting import RevertRequest, plan_revert
from waterclock.selection import Labels

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOURCES = ("sales", "people", "prices")
FLOW = """
COLLECT shop.sales PARTITIONED (id BIGINT KEY, v BIGINT, at TIMESTAMP) FROM shop.sales
  EVERY DAY BY DATA TIME at;
COLLECT shop.people (id BIGINT KEY, v BIGINT, at TIMESTAMP) FROM shop.people
  EVERY DAY BY DATA TIME at MERGE ORDER BY at;
COLLECT shop.prices (id BIGINT KEY, v BIGINT, at TIMESTAMP) FROM shop.prices
  EVERY DAY BY DATA TIME at TEMPORAL AT at;
TRANSFORM marts.stock AS SELECT sum(v) AS v FROM shop.people;
TRANSFORM marts.of_sales PARTITIONED AS SELECT id, v * {factor} AS v FROM shop.sales;
TRANSFORM marts.of_people PARTITIONED AS SELECT id, v * {factor} AS v FROM shop.people;
TRANSFORM marts.of_prices PARTITIONED AS SELECT id, v * {factor} AS v FROM shop.prices;
TRANSFORM marts.of_stock PARTITIONED AS SELECT v * {factor} AS v FROM marts.stock;
"""
READERS = {
    "shop.sales": "marts.of_sales",
    "shop.people": "marts.of_people",
    "shop.prices": "marts.of_prices",
    "marts.stock": "marts.of_stock",
}
COLUMNS = "id INTEGER, v INTEGER, at TEXT"
ROWS = [(n % 3, n + 1, f"2020-01-{1 + n // 2:02d} 08:00:00") for n in range(4)]
NOW, MUCH_LATER = day(3), datetime(2040, 1, 1, tzinfo=UTC)


def flow(factor: int) -> str:
    return FLOW.format(factor=factor)


def rows_of(project: Branched) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(project.rows(f"SELECT * FROM {name}"), key=repr) for name in (*READERS, *READERS.values())}


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Branched:
    """Return a production with two days, one of them restated once."""
    found = Branched(tmp_path_factory.mktemp("base"), spark)
    found.declare(flow(1))
    fill(found, 1)
    run(found)
    restate(found, 2)
    return found


@pytest.fixture(scope="module")
def expected(production: Branched, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of a branch whose production does nothing."""
    copied = production.copied(tmp_path_factory.mktemp("quiet") / "copied")
    return rows_of(made(copied))


def fill(project: Branched, factor: int) -> None:
    for name in SOURCES:
        project.source(name, COLUMNS, [(n, v * factor, at) for n, v, at in ROWS])


def run(project: Branched) -> None:
    outcome = project.run(NOW)
    assert not outcome.failed, described(outcome)


def restate(production: Branched, factor: int = 7) -> None:
    """Collect other rows of a day from every source, and make all dependent batches."""
    fill(production, factor)
    with production.ledger() as ledger:
        for name in SOURCES:
            ledger.decisions.request_restate(f"shop.{name}", [day(2)], "recollect", who="a test")
    run(production)


def made(production: Branched) -> Branched:
    branch = production.of("try")
    branch.declare(flow(10))
    branch.create(NOW)
    branch.make()
    return branch


def maintain(production: Branched, now: datetime = MUCH_LATER) -> set[str]:
    """Run maintenance, and return the tables whose files were removed."""
    with production.opened() as work:
        found = find_maintenance(work, list(work.flow.tables), now)
        for each in found:
            maintain_table(work, each, now)
    assert not [each.failed for each in found if each.failed]
    return {each.table for each in found if not each.is_nothing}


def rename(production: Branched) -> None:
    text = flow(1)
    for name in READERS:
        text = text.replace(f" {name}", f" {name}_now").replace(f"FROM {name}_now\n", f"FROM {name} WAS {name}\n")
    text = text.replace("marts.stock_now AS", "marts.stock_now WAS marts.stock AS")
    production.declare(text)
    run(production)


def drop_first_day(production: Branched) -> None:
    with production.opened() as work:
        for name in READERS:
            table = work.flow.tables[name]
            if table.is_partitioned:
                drop(work, find_droppable_windows(work, table, Labels.from_range(day(1), day(1)), day(9)), why="old")


def revert(production: Branched) -> None:
    for name in SOURCES:
        with open_read_only(production.root, "prod", NOW.isoformat()) as at:
            plan = plan_revert(at, RevertRequest(f"shop.{name}@2020-01-02", "previous"))
        with production.opened() as work:
            commit_reverts(work, plan, "it was right", NOW)
    run(production)


def rebuild(production: Branched) -> None:
    with production.opened() as work:
        for name in READERS:
            rebuild_table(work, name, plan_rebuild(work, [name])[name])


@pytest.mark.parametrize(
    "act", [restate, rename, *(pytest.param(act, marks=pytest.mark.soak) for act in (drop_first_day, revert, rebuild))]
)
def test_the_branch_keeps_the_versions_that_it_borrowed(
    production: Branched,
    expected: dict[str, list[tuple[Any, ...]]],
    tmp_path: Path,
    act: Callable[[Branched], None],
) -> None:
    copied = production.copied(tmp_path / "copied")
    branch = copied.of("try")
    branch.create(NOW)
    before = rows_of(copied) if act is not rename else {}
    act(copied)
    assert act in {rename, rebuild} or rows_of(copied) != before, "production has other rows now"
    branch.declare(flow(10))
    branch.make()
    assert rows_of(branch) == expected


def test_a_branch_reports_rows_that_maintenance_of_production_removed(
    production: Branched, expected: dict[str, list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    copied, alone = production.copied(tmp_path / "copied"), production.copied(tmp_path / "alone")
    branch = copied.of("try")
    branch.create(NOW, now=datetime(2026, 1, 1, tzinfo=UTC), days=1)  # forgotten: its lease has ended
    for project in (copied, alone):
        restate(project)
    assert maintain(copied) == maintain(alone) >= {"shop.people", "shop.prices"}
    branch.declare(flow(10))
    reported = set[str]()
    for table, reader in READERS.items():
        try:
            branch.make(reader)
        except (AssertionError, WaterclockError) as error:
            assert "E475" in str(error), error  # noqa: PT017 - otherwise it has all rows
            assert "waterclock branch delete try" in str(error)  # noqa: PT017
            reported.add(table)
        else:
            found = branch.rows(f"SELECT * FROM {reader}")
            assert sorted(found, key=repr) == expected[reader], f"other rows of {table}"
    assert reported, "files were removed"


@pytest.mark.parametrize("table", READERS)
def test_a_table_that_production_starts_over_is_reported(production: Branched, tmp_path: Path, table: str) -> None:
    copied = production.copied(tmp_path / "copied")
    branch = copied.of("try")
    branch.create(NOW)
    with copied.opened() as work:
        found = prepare_reset(work, table)
        assert found is not None
        reset(work, found, why="wrong")
    branch.declare(flow(10))
    with pytest.raises(WaterclockError, match="E475") as raised:
        branch.make()
    assert table in raised.value.what
    assert "waterclock branch delete try" in str(raised.value.fix)


def test_a_changed_table_whose_log_production_made_anew_is_reported(production: Branched, tmp_path: Path) -> None:
    copied = production.copied(tmp_path / "copied")
    branch = copied.of("try")
    branch.create(NOW)
    commits = sorted((copied.root / copied.storage / "tables/marts/of_people/_delta_log").glob("*.json"))
    commits[-1].unlink()  # an older copy of the log was put back
    with copied.opened() as work:
        rebuild_table(work, "marts.of_people", plan_rebuild(work, ["marts.of_people"])["marts.of_people"])
    branch.declare(flow(10))
    with pytest.raises(WaterclockError, match=r"no longer has the version of marts\.of_people"):
        branch.make()
