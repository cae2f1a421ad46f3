"""Spark writes each batch once, as sealed slices."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from waterclock.storage import (
    Identity,
    Lake,
    commit_slices,
    create_table,
    frame_at,
    frame_of_slices,
    kill,
    outcome,
    read_manifest,
    table_schema,
    write_slices,
)
from waterclock.timelabel import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
T = datetime(2018, 3, 5, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_one_label_makes_one_sealed_slice_that_its_table_then_shows(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    folder = lake.folder("web.clicks")
    frame = spark.range(10).selectExpr("id", "concat('x', id) AS name", "timestamp_seconds(id) AS at")
    written = write_slices(
        frame, folder=folder, claim=7, labels=[T], lake=lake, code="c1", measures=[("n", F.max("id"))]
    )
    manifest = written.manifests[0]
    assert manifest == read_manifest(folder, "_stage/y=2018/m=03/d=05/h=08/n=00/c=7")
    assert (manifest.rows, written.measures) == (10, {T: {"n": 9}})
    create_table(folder, manifest.schema, is_partitioned=False, project="shop")
    identity = Identity("shop", "web.clicks", "collect", (label_of(T),), label_of(T), 7, "c1")
    assert commit_slices(folder, identity, written.manifests, mode="append") == 1
    assert outcome(folder, 7, after_version=-1).kind == "data"
    rows = frame_at(spark, folder, 1, is_partitioned=False).orderBy("id").collect()
    assert [row.asDict() for row in rows] == [
        row.asDict() for row in frame_of_slices(spark, folder, [manifest], table_schema(folder)).orderBy("id").collect()
    ]
    assert rows[3]["timelabel"] == label_of(T)
    kill(folder, 8)
    assert outcome(folder, 8, after_version=1).kind == "killed"


def test_a_group_is_written_by_one_job_and_sealed_label_by_label(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    folder = lake.folder("web.clicks")
    labels = [T + HOUR * hour for hour in range(4)]
    texts = F.array(*(F.lit(label_of(label)) for label in labels))
    frame = spark.range(9).withColumn("timelabel", F.element_at(texts, (F.col("id") % 3 + 1).cast("int")))
    written = write_slices(frame, folder=folder, claim=7, labels=labels, lake=lake, code="c1")
    assert [manifest.rows for manifest in written.manifests] == [3, 3, 3, 0]
    create_table(folder, frame.schema, is_partitioned=True, project="shop")
    identity = Identity("shop", "web.clicks", "collect", tuple(map(label_of, labels)), label_of(labels[-1]), 7, "c1")
    assert commit_slices(folder, identity, written.manifests, mode="append") == 1
    assert frame_at(spark, folder, 1, low=labels[1], high=labels[2], is_partitioned=True).count() == 3
    again = write_slices(frame.drop("timelabel"), folder=folder, claim=9, labels=labels[:1], lake=lake, code="c1")
    one = write_slices(frame.where("id % 3 = 0"), folder=folder, claim=10, labels=labels[:1], lake=lake, code="c1")
    assert one.manifests[0].digest == written.manifests[0].digest != again.manifests[0].digest
    assert written.manifests[3].digest == "0:0:0"
