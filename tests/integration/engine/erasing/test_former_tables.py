"""Tables that the flow does not declare any more are erased by their last declaration, or named with what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.integration.engine.erasing import test_apart as apart
from tests.integration.engine.erasing.test_erasing import (
    ERASED,
    FLOW,
    OTHER,
    content,
    erased,
    found,
    keys,
    killed,
    places_with,
    project,
    run,
)
from tests.keys import DECLARED as KEYS
from tests.tiny import Tiny, day
from waterclock.cli.views.erase import format_plan
from waterclock.engine.erasing.erasing import plan_erasure
from waterclock.engine.erasing.request import build_request
from waterclock.engine.maintenance.reset import prepare_reset, reset
from waterclock.engine.run_opening import apply_flow
from waterclock.engine.runner_name import runner_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["keys"]  # a fixture of all tests

# without the publish and the sums, which name a place that stays
DECLARED = FLOW.partition("TRANSFORM marts.sums")[0]
REMOVED = ("marts.sold", "marts.newest", "marts.past")
KEPT = DECLARED.partition("TRANSFORM marts.sold")[0]
TABLES = ("raw.orders", "raw.customers", *REMOVED)


def moved_to_disk(tiny: Tiny, table: str) -> tuple[Path, Path]:
    """Move the folder of a table elsewhere, with a link in its place. Return the link and the new folder."""
    folder, disk = tiny.root / tiny.storage / "tables" / Path(*table.split(".")), tiny.root / "disk"
    folder.rename(disk)
    folder.symlink_to(disk, target_is_directory=True)
    return folder, disk


def clients_of(folder: Path) -> set[int]:
    """Return the values of the column `client` in all files of a folder."""
    tables = [pq.ParquetFile(path).read() for path in folder.rglob("*.parquet")]
    return {client for table in tables if "client" in table.column_names for client in table["client"].to_pylist()}


def left_at(tiny: Tiny, *values: int) -> dict[str, str]:
    return {each.place: f"{each.why}. {each.fix}" for each in erased(tiny, *values).left}


def test_tables_that_are_not_declared_any_more_are_erased(tmp_path: Path, spark: SparkSession) -> None:
    whole = DECLARED.partition("TRANSFORM marts.known")[0]
    tiny, clean = (
        project(tmp_path / "a", spark, flow=whole),
        project(tmp_path / "b", spark, without=(ERASED,), flow=whole),
    )
    run(tiny)
    run(clean)
    tiny.declare(KEPT)
    run(tiny)
    assert [place for place in places_with(tiny, ERASED) if "marts" in place]
    assert {name for name in found(tiny, ERASED) if "marts" in name} == set(REMOVED)
    with tiny.opened() as work:
        lines = list(format_plan(plan_erasure(work, build_request(work, "customer", [str(ERASED)]), continues=False)))
    assert "  marts.sold (client): 1 row in 1 label" in lines
    result = erased(tiny, ERASED)
    assert result.left == ()
    assert list(places_with(tiny, ERASED)) == []
    tiny.declare(whole)
    assert found(tiny, ERASED) == []
    assert content(tiny, TABLES) == content(clean, TABLES)
    run(tiny)
    assert content(tiny, TABLES) == content(clean, TABLES)


def test_the_persons_of_a_removed_apart_are_erased(tmp_path: Path, spark: SparkSession) -> None:
    tiny = apart.project(tmp_path, spark)
    tiny.declare(apart.FLOW.partition("TRANSFORM marts.pages")[0])
    run(tiny)
    tiny.declare(apart.FLOW.partition("TRANSFORM web.visits")[0])
    run(tiny)
    assert [place for place in places_with(tiny, ERASED) if "web/visits_apart" in place]
    assert left_at(tiny, ERASED) == {}
    assert list(places_with(tiny, ERASED)) == []


def test_a_table_whose_declaration_no_longer_compiles_is_left_with_the_reason(
    tmp_path: Path, spark: SparkSession
) -> None:
    flow = (
        KEPT
        + """
CREATE VIEW raw.some AS SELECT buyer, id FROM raw.orders;
TRANSFORM marts.sold PARTITIONED AS SELECT buyer AS client, id FROM raw.some;
TRANSFORM marts.counts PARTITIONED AS SELECT count(*) AS n FROM raw.customers;
TRANSFORM marts.linked PARTITIONED AS SELECT buyer AS client FROM raw.orders;
"""
    )
    tiny = project(tmp_path, spark, flow=flow)
    run(tiny)
    tiny.declare(KEPT)
    run(tiny)
    link, disk = moved_to_disk(tiny, "marts.linked")
    assert ERASED in clients_of(disk)
    left = left_at(tiny, ERASED)
    folder = tmp_path / tiny.storage / "tables" / "marts" / "sold"
    assert "unknown table raw.some" in left["marts.sold"]
    assert str(folder) in left["marts.sold"]
    assert "no column identifies the person" in left["marts.counts"]
    assert "a link is not followed" in left[str(link)], "its rows are erased, but the search of all files ends there"
    assert clients_of(disk) == {OTHER, 7}
    assert left.keys() == {"marts.sold", "marts.counts", str(link)}, "each table is named once, and no file of it"
    assert tiny.rows(f"SELECT count(*) FROM raw.orders WHERE buyer = {OTHER}") == [(1,)]


def test_a_table_is_erased_after_its_input_was_declared_anew(tmp_path: Path, spark: SparkSession) -> None:
    columns = "id BIGINT KEY SUBJECT customer, name STRING"
    flow = f"{KEYS}COLLECT raw.customers ({columns}) FROM shop.customers EVERY DAY;\n"
    tiny = project(tmp_path, spark, flow=flow + "TRANSFORM marts.ids AS SELECT id AS client FROM raw.customers;")
    run(tiny)
    tiny.declare(flow.replace("BIGINT KEY", "BIGINT"))
    with tiny.opened() as work:
        apply_flow(work, day(3))
        todo = prepare_reset(work, "raw.customers")
        assert todo is not None
        reset(work, todo, why="no key")
    run(tiny)
    assert "marts.ids" in found(tiny, ERASED)
    assert left_at(tiny, ERASED) == {}
    assert list(places_with(tiny, ERASED)) == []


@pytest.mark.parametrize("is_committed", [True, False])
def test_an_abandoned_claim_of_such_a_table_does_not_delay_the_erasure(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *, is_committed: bool
) -> None:
    flow = KEPT + "TRANSFORM marts.sold PARTITIONED AS SELECT buyer AS client, id FROM raw.orders;"
    tiny = project(tmp_path, spark, flow=flow)
    settings, runner = tiny.settings, runner_name()
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    ended_runner = runner.replace(f":{os.getpid()}:", f":{ended.pid}:")
    if is_committed:
        tiny.run(day(3), only=("raw.orders", "raw.customers"))
        tiny.settings = replace(settings, runner=ended_runner)
        with killed("committed", monkeypatch) as struck:
            tiny.run(day(3), only=("marts.sold",))
        assert struck
        tiny.settings = settings
    else:
        run(tiny)
        with tiny.opened() as work:
            for number in (3, 4):
                tiny.claim(work, "marts.sold", number, runner=ended_runner)
    tiny.declare(KEPT)
    assert left_at(tiny, ERASED) == {}
    assert list(places_with(tiny, ERASED)) == []
    assert tiny.open_claims() == 0
    tiny.declare(flow)
    run(tiny)
    assert {row[0] for row in tiny.rows("SELECT client FROM marts.sold")} == {OTHER, 7}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["erase.committed", "erase.recorded", "erase.files_purged"])
def test_a_killed_erasure_of_such_a_table_continues(
    tmp_path: Path, spark: SparkSession, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = KEPT + "TRANSFORM marts.sold AS SELECT buyer AS client, id FROM raw.orders;"
    tiny = project(tmp_path, spark, flow=flow)
    run(tiny)
    before = sorted(tiny.rows("SELECT client, id FROM marts.sold"))
    assert ERASED in {row[0] for row in before}
    tiny.declare(KEPT)
    run(tiny)
    with killed(point, monkeypatch, nth=3) as struck:  # after those of raw.orders and raw.customers
        erased(tiny, ERASED)
    assert struck
    run(tiny)
    assert erased(tiny, ERASED, continues=True).left == ()
    assert list(places_with(tiny, ERASED)) == []
    tiny.declare(flow)
    run(tiny)
    assert sorted(tiny.rows("SELECT client, id FROM marts.sold")) == [row for row in before if row[0] != ERASED]
