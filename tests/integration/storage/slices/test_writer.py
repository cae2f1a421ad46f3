"""Spark writes each batch once, as sealed slices."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StringType, StructType

from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.flow.merge_settings import Merge
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import commit_slices
from waterclock.storage.lake import Lake
from waterclock.storage.log.identity import Identity
from waterclock.storage.slices import writer
from waterclock.storage.slices.digest import digest_of_row, digests
from waterclock.storage.slices.manifest import is_sealed, read_manifest
from waterclock.storage.slices.read import frame_at, frame_of_slices, no_rows, table_schema
from waterclock.storage.slices.row_filter import ROW_QUARANTINED, RowFilter, RowFilterSettings, RowRule
from waterclock.storage.slices.rule_marks import add_rule_marks
from waterclock.storage.slices.writer import WrittenSlices, write_slices
from waterclock.storage.spark_settings import SESSION_CONFS
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
T = datetime(2018, 3, 5, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)
TABLE = "web.clicks"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


@pytest.fixture
def folder(lake: Lake) -> str:
    return lake.folder(TABLE)


def write(lake: Lake, frame: DataFrame, claim: int = 7, *labels: datetime, **options: Any) -> WrittenSlices:
    return write_slices(
        frame, folder=lake.folder(TABLE), claim=claim, labels=labels or [T], lake=lake, code="c1", **options
    )


def identity(claim: int, *labels: datetime) -> Identity:
    texts = tuple(map(label_of, labels))
    return Identity("shop", TABLE, "collect", texts, max(texts), claim, "c1")


def in_hours(spark: SparkSession, rows: int, hours: int) -> DataFrame:
    texts = F.array(*(F.lit(label_of(T + HOUR * number)) for number in range(hours)))
    return spark.range(rows).withColumn("timelabel", F.element_at(texts, (F.col("id") % hours + 1).cast("int")))


def test_one_label_makes_one_sealed_slice_that_its_table_then_shows(
    spark: SparkSession, lake: Lake, folder: str
) -> None:
    frame = spark.range(10).selectExpr("id", "concat('x', id) AS name", "timestamp_seconds(id) AS at")
    written = write(lake, frame, measures=[("most", F.max("id"))], source={T: {"file": "a.csv"}}, name=TABLE)
    manifest = written.manifests[0]
    assert manifest == read_manifest(folder, "_stage/y=2018/m=03/d=05/h=08/n=00/c=7")
    assert (manifest.table, manifest.rows, manifest.source) == (TABLE, 10, {"file": "a.csv"})
    assert written.measures == {T: {"most": 9}}
    create_table(folder, frame.schema, is_partitioned=False, project="shop")
    assert commit_slices(folder, identity(7, T), written.manifests, mode="append") == 1
    shown = frame_at(spark, folder, 1, is_partitioned=False).orderBy("id").collect()
    read = frame_of_slices(spark, folder, [manifest], table_schema(folder)).orderBy("id").collect()
    assert shown == read
    assert tuple(shown[3])[:3] == (label_of(T), 3, "x3")


def test_a_slice_holds_its_files_and_its_manifest_and_nothing_else(
    spark: SparkSession, lake: Lake, folder: str
) -> None:
    manifest = write(lake, spark.range(10)).manifests[0]
    found = sorted(path.name for path in Path(folder, manifest.slice_path).iterdir())
    assert found == sorted([*(file.path.rsplit("/", 1)[1] for file in manifest.files), "_manifest.json"])
    assert manifest.bytes == sum(Path(folder, file.path).stat().st_size for file in manifest.files)


def test_one_label_costs_one_spark_job(spark: SparkSession, lake: Lake) -> None:
    frame = spark.range(10)
    group = f"slice of {id(frame)}"
    spark.sparkContext.setJobGroup(group, "one slice")
    try:
        write(lake, frame, measures=[("n", F.sum("id"))])
    finally:
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(group)
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert len(jobs) == 1


def through_rules(frame: DataFrame, *rules: str) -> RowFilterSettings:
    row_rules = tuple(RowRule(f"r{at}", rule, ROW_QUARANTINED) for at, rule in enumerate(rules))
    return RowFilterSettings(RowFilter(row_rules), {name: name for name in frame.columns}, frame.schema.json())


def last_description(spark: SparkSession) -> str:
    """Return the plan that ran last, with the description of each node."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    found = spark._jsparkSession.sharedState().statusStore().executionsList()
    return str(found.apply(found.size() - 1).physicalPlanDescription())


def plan_of_last(spark: SparkSession) -> str:
    """Return the tree of the plan that ran last, from its write downward."""
    return last_description(spark).partition("\n\n\n")[0].partition("== Initial Plan ==")[0]


def test_rows_of_one_label_are_parted_without_a_sort_and_without_a_copy_behind_the_count(
    spark: SparkSession, lake: Lake, folder: str
) -> None:
    spark.range(20).selectExpr("id", "concat('x', id) AS name").write.parquet(str(Path(lake.root, "rows")))
    frame = spark.read.parquet(str(Path(lake.root, "rows")))
    parted = write(lake, frame, through=through_rules(frame, "id % 5 <> 2", "name <> 'x3'"))
    plan = plan_of_last(spark)
    assert [plan.count(it) for it in ("Scan parquet", "CollectMetrics", "Sort (", "Exchange")] == [1, 1, 0, 0]
    assert "Project" not in plan.partition("CollectMetrics")[0]
    assert spark.conf.get("spark.sql.maxConcurrentOutputFileWriters") == "0"
    [manifest] = parted.manifests
    assert (manifest.rows, manifest.aside_rows) == (15, 5)
    plain = write(lake, frame.where("id % 5 <> 2 AND id <> 3"), 8).manifests[0]
    assert manifest.digest == plain.digest
    sealed = frame_of_slices(spark, folder, [manifest])
    assert manifest.digest == digest_of_row(digests(sealed)[label_of(T)])


def test_measures_of_filtered_rows_use_one_scan_of_the_named_columns(spark: SparkSession, lake: Lake) -> None:
    frame = spark.range(20).selectExpr("id", "concat('x', id) AS name", "id * 2 AS twice")
    measures = [("most", F.max("id")), ("names", F.expr("count(DISTINCT name)"))]
    through = through_rules(frame, "id < 15")
    measured = write(lake, frame, measures=measures, through=through)
    schema = re.findall(r"ReadSchema: struct<(.*)>", last_description(spark))
    assert schema == ["id:bigint,name:string"]
    assert measured.measures == {T: {"most": 14, "names": 15}}
    assert measured.manifests[0].digest == write(lake, frame, 8, through=through).manifests[0].digest
    none = write(lake, frame.where("id < 0"), 9, measures=measures, through=through)
    assert (none.measures, none.manifests[0].digest) == ({T: {"most": None, "names": 0}}, "0:0:0")


def test_java_would_not_compile_the_method_of_sixty_rules_so_spark_is_to_part_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(5).write.parquet(str(tmp_path / "rows"))
    frame = spark.read.parquet(str(tmp_path / "rows"))
    rules = [f"id + {at} * id < {1000 + at}" for at in range(60)]
    compiling = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    before = {name: spark.conf.get(name) or "" for name in compiling}
    for name, value in compiling.items():
        spark.conf.set(name, value)
    try:
        plan = add_rule_marks(frame, through_rules(frame, *rules))._jdf.queryExecution().executedPlan()
        code = spark._jvm.org.apache.spark.sql.execution.debug.package.codegenString(plan)  # type: ignore[union-attr]
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    longest = max(map(int, re.findall(r"maxMethodCodeSize:(\d+)", code)))
    assert longest > int(SESSION_CONFS["spark.sql.codegen.hugeMethodLimit"]) == 8000


@pytest.mark.parametrize("query", ["id < 0", "false"])
def test_a_label_without_rows_has_a_sealed_slice_without_files(
    spark: SparkSession, lake: Lake, folder: str, query: str
) -> None:
    manifest = write(lake, spark.range(10).where(query), measures=[("n", F.sum("id"))]).manifests[0]
    assert (manifest.rows, manifest.files, manifest.digest) == (0, (), "0:0:0")
    assert is_sealed(folder, manifest.slice_path)
    assert frame_of_slices(spark, folder, [manifest]).columns == ["timelabel", "id"]
    assert frame_of_slices(spark, folder, [manifest]).count() == 0


def test_a_group_without_any_rows_is_sealed_too(spark: SparkSession, lake: Lake) -> None:
    nothing = in_hours(spark, 10, 2).where("xxhash64(id) = 1")  # Spark knows this only at runtime
    written = write(lake, nothing, 7, T, T + HOUR)
    assert [(manifest.rows, manifest.digest) for manifest in written.manifests] == [(0, "0:0:0")] * 2


@pytest.mark.parametrize("labels", [(T,), (T, T + HOUR)])
def test_an_empty_batch_uses_no_spark_job_and_is_sealed_like_a_written_one(
    spark: SparkSession, lake: Lake, labels: tuple[datetime, ...]
) -> None:
    schema = StructType().add("id", LongType()).add("timelabel", StringType())
    merge = Merge(("id",), ("id",), "id < 0")
    frame = no_rows(spark, schema).where("id > 1").groupBy("id", "timelabel").count()
    written = write(lake, frame, 7, *labels, fold=merge)
    before = jobs(spark)
    sealed = write(lake, frame, 8, *labels, fold=merge, may_be_empty=True)
    assert jobs(spark) == before
    for one, other in zip(written.manifests, sealed.manifests, strict=True):
        assert replace(other, claim=one.claim, slice_path=one.slice_path, sealed_at=one.sealed_at) == one
        assert read_manifest(lake.folder(TABLE), other.slice_path) == other
    measures = [("none", F.sum("id")), ("count", F.count("*"))]
    asked = write(lake, frame, 9, *labels, measures=measures, may_be_empty=True)
    assert list(asked.measures.values()) == [{"none": None, "count": 0}] * len(labels)


def test_rows_made_of_nothing_are_written(spark: SparkSession, lake: Lake) -> None:
    counted = no_rows(spark, StructType().add("id", LongType())).agg(F.count("*").alias("n"))
    (manifest,) = write(lake, counted, may_be_empty=True).manifests
    assert (manifest.rows, len(manifest.files)) == (1, 1)


def jobs(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def test_timelabel_is_stored_first_and_the_queries_own_is_not(spark: SparkSession, lake: Lake, folder: str) -> None:
    manifest = write(lake, spark.sql("SELECT 5 AS id, 'mine' AS TimeLabel")).manifests[0]
    stored = pq.read_table(Path(folder, manifest.files[0].path))
    assert stored.column_names == ["timelabel", "id"]
    assert stored.column("timelabel").to_pylist() == [label_of(T)]


def test_columns_named_like_stage_folders_or_with_special_characters_are_preserved(
    spark: SparkSession, lake: Lake, folder: str
) -> None:
    frame = spark.sql("SELECT 1 AS y, 'a' AS m, 2 AS c, 3 AS `d.e`, 4 AS `f``g`, 5 AS `größe`")
    manifest = write(lake, frame).manifests[0]
    row = frame_of_slices(spark, folder, [manifest]).drop("timelabel").first()
    assert row is not None
    assert row.asDict() == {"y": 1, "m": "a", "c": 2, "d.e": 3, "f`g": 4, "größe": 5}


def test_a_group_is_sealed_label_by_label_with_the_digests_each_would_have_alone(
    spark: SparkSession, lake: Lake, folder: str
) -> None:
    labels = [T + HOUR * number for number in range(4)]
    written = write(lake, in_hours(spark, 9, 3), 7, *labels)
    assert [manifest.rows for manifest in written.manifests] == [3, 3, 3, 0]
    alone = write(lake, spark.range(9).where("id % 3 = 0"), 10).manifests[0]
    assert [m.digest for m in written.manifests] == [alone.digest, *(m.digest for m in written.manifests[1:3]), "0:0:0"]
    assert [len(manifest.files) for manifest in written.manifests] == [1, 1, 1, 0]
    assert not Path(folder, "_stage", "c=7").exists()
    create_table(folder, spark.range(1).schema, is_partitioned=True, project="shop")
    assert commit_slices(folder, identity(7, *labels), written.manifests, mode="append") == 1
    assert frame_at(spark, folder, 1, low=labels[1], high=labels[2], is_partitioned=True).count() == 3
    assert frame_at(spark, folder, 1, high=labels[2], is_partitioned=True).count() == 6


def test_digests_in_the_writes_pass_equal_those_of_a_scan(
    spark: SparkSession, lake: Lake, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = [T + HOUR * number for number in range(5)]
    frame = in_hours(spark, 40, 4).selectExpr("*", "if(id % 7 = 0, null, array(id, null)) AS items")
    in_pass = write(lake, frame, 7, *labels)
    monkeypatch.setattr(writer, "MOST_LABELS_IN_PASS", 1)
    scanned = write(lake, frame, 8, *labels)
    assert [m.digest for m in in_pass.manifests] == [m.digest for m in scanned.manifests]
    recovered = digests(frame_of_slices(spark, folder, scanned.manifests))
    assert {label: digest_of_row(row) for label, row in recovered.items()} == {
        label_of(m.label): m.digest for m in in_pass.manifests if m.rows
    }


def test_a_group_is_measured_label_by_label(spark: SparkSession, lake: Lake) -> None:
    labels = [T + HOUR * number for number in range(3)]
    written = write(lake, in_hours(spark, 8, 2), 7, *labels, measures=[("most", F.max("id")), ("n", F.count("*"))])
    assert written.measures == {
        labels[0]: {"most": 6, "n": 4},
        labels[1]: {"most": 7, "n": 4},
        labels[2]: {"most": None, "n": 0},
    }


def test_a_row_of_a_label_that_is_not_being_made_is_refused(spark: SparkSession, lake: Lake, folder: str) -> None:
    labels = [T, T + HOUR]
    with pytest.raises(WaterclockError, match="E606 rows have the label 20180305100000, which is not being made"):
        write(lake, in_hours(spark, 9, 3), 7, *labels)
    assert not any(Path(folder).rglob("*.parquet"))


def test_a_sealed_slice_is_not_written_again(spark: SparkSession, lake: Lake, folder: str) -> None:
    before = write(lake, spark.range(3)).manifests[0]
    with pytest.raises(WaterclockError, match="E604 the slice is sealed already"):
        write(lake, spark.range(5))
    assert read_manifest(folder, before.slice_path) == before


@pytest.mark.parametrize("point", ["make", "written", "seal"])
@pytest.mark.parametrize("hours", [1, 3])
def test_a_crash_before_the_manifest_leaves_nothing_that_is_read_and_can_be_made_again(
    spark: SparkSession, lake: Lake, folder: str, point: str, hours: int
) -> None:
    def strike(name: str) -> None:
        if name == point:
            raise RuntimeError(name)

    labels = [T + HOUR * number for number in range(hours)]
    with inject_faults(strike), pytest.raises(RuntimeError, match=point):
        write(lake, in_hours(spark, 9, hours), 7, *labels)
    assert not any(is_sealed(folder, lake.slice_path(label, 7)) for label in labels)
    written = write(lake, in_hours(spark, 6, hours), 7, *labels)
    assert sum(manifest.rows for manifest in written.manifests) == 6
    assert frame_of_slices(spark, folder, written.manifests).count() == 6


def test_a_merges_slice_knows_its_deletes_and_the_bounds_of_its_order(spark: SparkSession, lake: Lake) -> None:
    rows = "VALUES (1, TIMESTAMP'2018-01-01 00:00:00.000001', 'u'), (2, NULL, 'd'), (3, TIMESTAMP'2018-01-02', NULL)"
    frame = spark.sql(f"SELECT * FROM {rows} AS t(k, at, op)")
    manifest = write(lake, frame, fold=Merge(("k",), ("at",), "op = 'd'")).manifests[0]
    assert manifest.has_deletes
    assert manifest.order_low == '{"o0":null}'
    assert manifest.order_high == '{"o0":"2018-01-02T00:00:00.000000Z"}'
    assert manifest.delete_high == '{"o0":null}'
    plain = write(lake, frame, 8, fold=Merge(("k",))).manifests[0]
    assert (plain.has_deletes, plain.order_high, plain.delete_high) == (False, None, None)


def test_a_merges_group_is_measured_too(spark: SparkSession, lake: Lake) -> None:
    labels = [T, T + HOUR]
    written = write(lake, in_hours(spark, 4, 2), 7, *labels, fold=Merge(("id",), ("id",), "id = 3"))
    assert [m.has_deletes for m in written.manifests] == [False, True]
    assert [m.order_high for m in written.manifests] == ['{"o0":2}', '{"o0":3}']
    assert written.measures == {labels[0]: {}, labels[1]: {}}
