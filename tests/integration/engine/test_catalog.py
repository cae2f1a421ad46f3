"""Tables of an environment with a `catalog` are found by other engines through its metastore, by their names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.metastore import RunningMetastore, metastore
from tests.tiny import TOML, Tiny, day, described
from waterclock.engine.maintenance.project_maintenance import maintain_project
from waterclock.engine.spark.jars import delta_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

READER = """
import sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", sys.argv[1])
    .config("spark.hadoop.hive.metastore.uris", sys.argv[2])
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.warehouse.dir", "warehouse")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .enableHiveSupport()
    .getOrCreate()
)
for row in spark.sql(sys.argv[3]).collect():
    print("row", *row)
"""


@pytest.fixture
def running() -> RunningMetastore:
    return metastore()


def project(root: Path, spark: SparkSession, running: RunningMetastore, database: str) -> Tiny:
    toml = TOML.replace("[env.dev]\n", f'[env.dev]\ncatalog = "{running.address}"\n')
    tiny = Tiny(root, spark, toml=toml)
    tiny.source("events", "id INTEGER, at TEXT", [(n, f"2020-01-0{n} 10:00:00") for n in (1, 2)])
    tiny.declare(
        f"COLLECT {database}.events PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.events EVERY DAY BY DATA TIME at;\n"
        f"TRANSFORM {database}.total AS SELECT count(*) AS events FROM {database}.events;\n"
        f"PUBLISH {database}.total TO shop.totals REPLACE;"
    )
    return tiny


def run(tiny: Tiny, until: int) -> None:
    outcome = tiny.run(day(until))
    assert not outcome.failed, described(outcome)


def path_of(running: RunningMetastore, database: str, table: str) -> str | None:
    found = running.table(database, table)
    path: str | None = None if found is None else found.sd.serdeInfo.parameters["path"]
    return path


def test_another_spark_reads_tables_by_name(tmp_path: Path, spark: SparkSession, running: RunningMetastore) -> None:
    tiny = project(tmp_path / "a b", spark, running, "catalog_a")
    run(tiny, 2)
    run(tiny, 3)
    asked = "SELECT id, timelabel FROM catalog_a.events ORDER BY id"
    jars = ",".join(map(str, delta_jars()))
    command = [sys.executable, "-c", READER, jars, str(running.address), asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300)
    assert done.stdout.splitlines() == ["row 1 20200101000000", "row 2 20200102000000"], done.stderr[-3000:]
    assert path_of(running, "catalog_a", "total") == f"file:{tmp_path}/a b/.waterclock/tables/catalog_a/total"
    assert running.table("shop", "totals") is None  # a publish is no table


def test_batches_are_made_without_the_metastore_and_maintenance_makes_up_for_it(
    tmp_path: Path, spark: SparkSession, running: RunningMetastore
) -> None:
    tiny = project(tmp_path, spark, running, "catalog_b")
    running.stop()
    try:
        run(tiny, 2)
    finally:
        running.start()
    said = [each for each in tiny.heard.said_ if "not in the catalog" in each]
    where = f"catalog_b.events is not in the catalog {running.address}"
    assert said == [f"{where}: Connection refused; the next commit and `waterclock maintain` try again"]
    assert path_of(running, "catalog_b", "events") is None
    with tiny.opened() as work:
        assert not any(each.failed for each in maintain_project(work, None, is_dry=False).tables)
    assert path_of(running, "catalog_b", "events") == f"file:{tmp_path}/.waterclock/tables/catalog_b/events"
    assert path_of(running, "catalog_b", "total") is not None


def test_a_table_of_others_is_left_and_reported(tmp_path: Path, spark: SparkSession, running: RunningMetastore) -> None:
    first = project(tmp_path / "first", spark, running, "catalog_c")
    run(first, 2)
    before = path_of(running, "catalog_c", "events")
    second = project(tmp_path / "second", spark, running, "catalog_c")
    second.name = "another"
    (second.root / "waterclock.toml").write_text(
        (first.root / "waterclock.toml").read_text().replace("tiny", "another")
    )
    run(second, 2)
    assert path_of(running, "catalog_c", "events") == before
    assert any("the metastore has a table of project tiny with this name" in each for each in second.heard.said_)
