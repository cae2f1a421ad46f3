"""Spark and delta-rs respect each other's commits on one table, tested from Spark's side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.slices import PROJECT, SCHEMA, actions, commit, hour, identity, ids, new_table, rows_of, sealed, version
from waterclock.faults import inject_faults
from waterclock.storage.commit.change import NeedsSpark
from waterclock.storage.commit.pointers import commit_slices, kill_claim
from waterclock.storage.commit.spark_commit import commit_by_spark
from waterclock.storage.log.delta_log import foreign_commits, outcome
from waterclock.storage.log.identity import ClaimKilledError
from waterclock.storage.slices.read import frame_at, frame_of_slices, table_schema
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.sampled(1)]
both_types = pytest.mark.parametrize("is_partitioned", [False, True])


def spark_ids(spark: SparkSession, folder: str) -> list[int]:
    return sorted(row["id"] for row in spark.read.format("delta").load(folder).collect())


@contextmanager
def conf(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.unset(key)


@both_types
def test_spark_reads_commits_of_delta_rs_and_their_history(
    spark: SparkSession, tmp_path: Path, is_partitioned: bool
) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    commit(folder, 1, {hour(0): rows_of(1, 2), hour(1): rows_of(3)}, files=2)
    commit(folder, 2, {hour(0): rows_of(9)})
    assert spark_ids(spark, folder) == ids(folder) == [3, 9]
    assert sorted(row["id"] for row in frame_at(spark, folder, 1, is_partitioned=is_partitioned).collect()) == [1, 2, 3]
    said = spark.sql(f"DESCRIBE HISTORY delta.`{folder}`").where("version = 2").first()
    assert said is not None
    assert '"claim":2' in said["userMetadata"]


@both_types
def test_delta_rs_reads_and_restates_commits_of_spark(
    spark: SparkSession, tmp_path: Path, is_partitioned: bool
) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    first = sealed(folder, hour(0), 1, rows_of(1, 2))
    other = sealed(folder, hour(1), 1, rows_of(3))
    assert commit_by_spark(spark, folder, identity(1, hour(0), hour(1)), [first, other], mode="append") == 1
    assert ids(folder) == [1, 2, 3]
    assert outcome(folder, 1, after_version=0).identity == identity(1, hour(0), hour(1))
    assert foreign_commits(folder, after_version=-1, project=PROJECT) == []
    late = sealed(folder, hour(0), 2, rows_of(9))
    if is_partitioned:
        commit_slices(folder, identity(2, hour(0)), [late], mode="append")
    else:
        with pytest.raises(NeedsSpark):
            commit_slices(folder, identity(2, hour(0)), [late], mode="append")
        commit_by_spark(spark, folder, identity(2, hour(0)), [late], mode="append")
    assert spark_ids(spark, folder) == ids(folder) == [3, 9]


def test_a_partitions_files_are_shown_under_its_label_whatever_timelabel_they_hold(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = new_table(tmp_path, is_partitioned=True)
    manifest = replace(sealed(folder, hour(0), 1, rows_of(1)), label=hour(5))
    commit_slices(folder, identity(1, hour(5)), [manifest], mode="append")
    shown = spark.read.format("delta").load(folder)
    assert [row["timelabel"] for row in shown.collect()] == [label_of(hour(5))]
    assert shown.where(f"timelabel = '{label_of(hour(5))}'").count() == 1
    assert DeltaTable(folder).to_pyarrow_table().column("timelabel").to_pylist() == [label_of(hour(5))]


@both_types
def test_m1_optimize_between_read_and_commit_duplicates_no_rows(
    spark: SparkSession, tmp_path: Path, is_partitioned: bool
) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    commit(folder, 1, {hour(0): rows_of(1, 2, 3)}, files=3)
    late = sealed(folder, hour(0), 2, rows_of(9))
    passed: list[str] = []

    def optimize(point: str) -> None:
        if point == "looked" and not passed:
            passed.append(point)
            spark.sql(f"OPTIMIZE delta.`{folder}`").collect()

    with inject_faults(optimize):
        if is_partitioned:
            commit_slices(folder, identity(2, hour(0)), [late], mode="append")
        else:
            with pytest.raises(NeedsSpark):
                commit_slices(folder, identity(2, hour(0)), [late], mode="append")
            assert spark_ids(spark, folder) == [1, 2, 3]
            commit_by_spark(spark, folder, identity(2, hour(0)), [late], mode="append")
    assert spark_ids(spark, folder) == ids(folder) == [9]


@both_types
def test_m2_spark_sees_a_kill_by_delta_rs_and_writes_nothing(
    spark: SparkSession, tmp_path: Path, is_partitioned: bool
) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    kill_claim(folder, 1)
    manifest = sealed(folder, hour(0), 1, rows_of(1))
    with pytest.raises(ClaimKilledError):
        commit_by_spark(spark, folder, identity(1, hour(0)), [manifest], mode="append")
    assert (spark_ids(spark, folder), version(folder)) == ([], 1)


def test_m2_delta_rs_sees_data_by_spark_and_spark_sees_data_by_delta_rs(spark: SparkSession, tmp_path: Path) -> None:
    folder = new_table(tmp_path, is_partitioned=True)
    manifest = sealed(folder, hour(0), 1, rows_of(1))
    assert commit_by_spark(spark, folder, identity(1, hour(0)), [manifest], mode="append") == 1
    assert commit_slices(folder, identity(1, hour(0)), [manifest], mode="append") == 1
    kill_claim(folder, 1)
    second = sealed(folder, hour(1), 2, rows_of(2))
    assert commit_slices(folder, identity(2, hour(1)), [second], mode="append") == 2
    assert commit_by_spark(spark, folder, identity(2, hour(1)), [second], mode="append") == 2
    assert (spark_ids(spark, folder), version(folder)) == ([1, 2], 2)


@pytest.mark.soak
def test_m2_the_id_outlives_a_checkpoint_by_either(spark: SparkSession, tmp_path: Path) -> None:
    folder = new_table(tmp_path, is_partitioned=True)
    kill_claim(folder, 99)
    for claim in range(1, 13):
        commit(folder, claim, {hour(claim): rows_of(claim)})
    assert Path(folder, "_delta_log", "_last_checkpoint").exists()
    for number in range(9):
        Path(folder, "_delta_log", f"{number:020d}.json").unlink()
    spark.catalog.clearCache()
    manifest = sealed(folder, hour(50), 99, rows_of(50))
    spark.read.format("delta").load(folder).count()
    (
        frame_of_slices(spark, folder, [manifest])
        .write.format("delta")
        .mode("append")
        .option("txnAppId", "waterclock:99")
        .option("txnVersion", 1)
        .save(folder)
    )
    assert version(folder) == 13


@pytest.mark.soak
def test_m3_vacuum_leaves_every_sealed_slice(spark: SparkSession, tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    slices = [sealed(folder, hour(0), claim, rows_of(claim, claim + 100), files=2) for claim in (1, 2)]
    for claim, manifest in enumerate(slices, start=1):
        commit_slices(folder, identity(claim, hour(0)), [manifest], mode="replace")
    spark.sql(f"OPTIMIZE delta.`{folder}`").collect()
    with conf(spark, "spark.databricks.delta.retentionDurationCheck.enabled", "false"):
        spark.sql(f"VACUUM delta.`{folder}` RETAIN 0 HOURS").collect()
        spark.sql(f"VACUUM delta.`{folder}` LITE").collect()
    assert all(Path(folder, file.path).exists() for manifest in slices for file in manifest.files)
    assert spark_ids(spark, folder) == [2, 102]
    assert frame_at(spark, folder, 1, is_partitioned=False).count() == 2


@pytest.mark.soak
@both_types
def test_m4_a_label_whose_files_carry_deletion_vectors_is_restated_by_spark(
    spark: SparkSession, tmp_path: Path, is_partitioned: bool
) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    commit(folder, 1, {hour(0): rows_of(1, 2, 3), hour(1): rows_of(4)})
    spark.sql(f"ALTER TABLE delta.`{folder}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE id = 2")
    assert any("deletionVector" in str(action.get("add", {})) for action in actions(folder, version(folder)))
    late = sealed(folder, hour(0), 5, rows_of(9))
    with pytest.raises(NeedsSpark, match="deletion vector"):
        commit_slices(folder, identity(5, hour(0)), [late], mode="append")
    commit_by_spark(spark, folder, identity(5, hour(0)), [late], mode="append")
    assert spark_ids(spark, folder) == [4, 9]
    assert outcome(folder, 5, after_version=0).kind == "data"


@pytest.mark.soak
@both_types
def test_m5_a_slice_committed_again_is_still_shown_by_spark(
    spark: SparkSession, tmp_path: Path, is_partitioned: bool
) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    manifest = sealed(folder, hour(0), 1, rows_of(1, 2), files=2)
    commit_slices(folder, identity(1, hour(0)), [manifest], mode="append")
    commit_slices(folder, identity(2, hour(0)), [manifest], mode="append")
    assert spark_ids(spark, folder) == [1, 2]


@pytest.mark.soak
def test_m6_the_change_feed_knows_the_rows_of_removed_files(spark: SparkSession, tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    spark.sql(f"ALTER TABLE delta.`{folder}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    commit(folder, 1, {hour(0): rows_of(1, 2)})
    commit(folder, 2, {hour(0): rows_of(2, 3)})
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(folder)
    changes = sorted((row["_change_type"], row["id"]) for row in feed.collect())
    assert changes == [("delete", 1), ("delete", 2), ("insert", 1), ("insert", 2), ("insert", 2), ("insert", 3)]


@both_types
def test_a_restatement_after_optimize_succeeds_under_the_same_claim(
    spark: SparkSession, tmp_path: Path, is_partitioned: bool
) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    for number in range(4):
        commit(folder, number + 1, {hour(number): rows_of(number, number + 10)}, files=2)
    spark.sql(f"OPTIMIZE delta.`{folder}`").collect()
    late = sealed(folder, hour(2), 9, rows_of(99))
    try:
        commit_slices(folder, identity(9, hour(2)), [late], mode="append")
        assert is_partitioned
    except NeedsSpark:
        assert not is_partitioned
        commit_by_spark(spark, folder, identity(9, hour(2)), [late], mode="append")
    assert spark_ids(spark, folder) == ids(folder) == [0, 1, 3, 10, 11, 13, 99]
    assert outcome(folder, 9, after_version=4).kind == "data"
    emptied = sealed(folder, hour(3), 10, [])
    try:
        commit_slices(folder, identity(10, hour(3)), [emptied], mode="append")
    except NeedsSpark:
        commit_by_spark(spark, folder, identity(10, hour(3)), [emptied], mode="append")
    assert spark_ids(spark, folder) == [0, 1, 10, 11, 99]


@pytest.mark.soak
def test_clustered_tables_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE delta.`{folder}` (timelabel STRING, id BIGINT, name STRING) USING delta CLUSTER BY (id) "
        f"TBLPROPERTIES ('waterclock.project' = '{PROJECT}')"
    )
    manifest = sealed(folder, hour(0), 1, rows_of(1))
    with pytest.raises(NeedsSpark):
        commit_slices(folder, identity(1, hour(0)), [manifest], mode="append")
    commit_by_spark(spark, folder, identity(1, hour(0)), [manifest], mode="append")
    assert spark_ids(spark, folder) == [1]


def test_replace_by_spark_leaves_the_new_state_alone(spark: SparkSession, tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1, 2)}, mode="replace")
    manifest = sealed(folder, hour(1), 2, rows_of(3))
    commit_by_spark(spark, folder, identity(2, hour(1)), [manifest], mode="replace")
    assert spark_ids(spark, folder) == ids(folder) == [3]


def test_old_slices_are_read_in_the_tables_wider_types_and_new_columns(spark: SparkSession, tmp_path: Path) -> None:
    narrow = pa.schema([("timelabel", pa.string()), ("i", pa.int32()), ("f", pa.float32()), ("d", pa.decimal128(5, 2))])
    manifest = sealed(str(tmp_path), hour(0), 1, [{"i": 1, "f": 0.5, "d": Decimal("1.25")}], schema=narrow)
    wide = spark.createDataFrame([], "timelabel STRING, i BIGINT, f DOUBLE, d DECIMAL(12,2), extra STRING").schema
    row = frame_of_slices(spark, str(tmp_path), [manifest], wide).drop("timelabel").first()
    assert tuple(row or ()) == (1, 0.5, Decimal("1.25"), None)


def test_timestamp_ntz_does_not_keep_spark_from_the_table(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), pa.field("n", pa.timestamp("us"), nullable=False)])
    folder = new_table(tmp_path, schema=schema)
    assert spark.read.format("delta").load(folder).columns == ["timelabel", "id", "n"]


def test_table_schema_is_sparks_own(spark: SparkSession, tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    assert table_schema(folder) == spark.read.format("delta").load(folder).schema


@pytest.mark.soak
@both_types
def test_a_version_read_from_its_files_equals_the_one_read_through_delta(
    spark: SparkSession, tmp_path: Path, is_partitioned: bool
) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    for number in range(4):
        commit(folder, number + 1, {hour(number): rows_of(number, number + 10)}, files=2)
    commit(folder, 5, {hour(1): rows_of(99)})
    spark.sql(f"OPTIMIZE delta.`{folder}`").collect()
    commit(folder, 6, {hour(9): []})
    for number in range(1, 8):
        whole = spark.read.format("delta").option("versionAsOf", number).load(folder).collect()
        for low, high in ((None, None), (hour(1), hour(3)), (hour(2), None), (None, hour(2)), (hour(50), hour(60))):
            frame = frame_at(spark, folder, number, low=low, high=high, is_partitioned=is_partitioned)
            least, most = label_of(low or hour(-1)), label_of(high or hour(99))
            assert frame.columns == ["timelabel", "id", "name"]
            assert sorted(frame.collect()) == sorted(row for row in whole if least <= row["timelabel"] < most)


@pytest.mark.soak
def test_deletion_vectors_are_minded_when_a_version_is_read(spark: SparkSession, tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1, 2, 3)})
    spark.sql(f"ALTER TABLE delta.`{folder}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE id = 2")
    assert sorted(row["id"] for row in frame_at(spark, folder, 3, is_partitioned=False).collect()) == [1, 3]
    assert frame_at(spark, folder, 1, is_partitioned=False).count() == 3


@pytest.mark.soak
def test_column_mapping_is_minded_when_a_version_is_read(spark: SparkSession, tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)})
    spark.sql(f"ALTER TABLE delta.`{folder}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE delta.`{folder}` RENAME COLUMN id TO number")
    row = frame_at(spark, folder, 3, is_partitioned=False).first()
    assert row is not None
    assert row["number"] == 1


@both_types
def test_spark_widens_the_table_in_the_commit_that_brings_a_new_column(
    spark: SparkSession, tmp_path: Path, is_partitioned: bool
) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    commit(folder, 1, {hour(0): rows_of(1), hour(1): rows_of(2)})
    wider = SCHEMA.append(pa.field("age", pa.int32()))
    late = sealed(folder, hour(0), 2, [{"id": 7, "name": "x", "age": 40}], schema=wider)
    assert commit_by_spark(spark, folder, identity(2, hour(0)), [late], mode="append") == 2
    rows = spark.read.format("delta").load(folder).orderBy("id").collect()
    assert [(row["id"], row["age"]) for row in rows] == [(2, None), (7, 40)]
