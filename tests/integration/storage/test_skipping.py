"""Spark skips files by the statistics that we read from footers, and never one with a matching row."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from tests.slices import PROJECT, hour
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import commit_slices
from waterclock.storage.lake import Lake
from waterclock.storage.log.identity import Identity
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.writer import write_slices

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = pytest.mark.spark
ROWS = """
  SELECT id,
    CAST(element_at(
      array('NaN', '-0.0', 'Infinity', '7', '-Infinity', '0.5', '0'), CAST(id * id % 7 + 1 AS INT)) AS DOUBLE) AS x,
    CAST(if(id % 5 = 1, NULL, if(id % 5 = 0, 0, -id)) AS FLOAT) AS f,
    timestamp_micros(id * 999983) AS t,
    TIMESTAMP_NTZ'2018-01-01 00:00:00.123456' + make_dt_interval(0, id) AS n,
    date_add(DATE'1969-12-25', CAST(id AS INT)) AS d,
    CAST(id * 1.001 - 20 AS DECIMAL(20,3)) AS m,
    concat(repeat('é', 31), char(CAST(id % 26 + 97 AS INT)), 'tail', id) AS s,
    if(id % 3 = 0, NULL, id) AS maybe,
    named_struct('a', id, 'b', if(id % 2 = 0, NULL, 'v')) AS st
  FROM range(40)"""
FIXED = ("st.b IS NULL", "maybe IS NULL", "maybe IS NOT NULL", "x = 0", "x = -0.0D", "x > 1e300D", "isnan(x)", "f <= 0")
COLUMNS = ("x", "f", "t", "n", "d", "m", "s", "maybe", "id", "st.a")
OF_ONE_FILE = ("id = 7", "t = timestamp_micros(7 * 999983)", "m = -12.993", "st.a = 7", "d = DATE'1970-01-01'")


@pytest.mark.sampled(1)
def test_every_predicate_finds_the_same_rows_through_delta_and_in_the_bare_files(
    spark: SparkSession, tmp_path: Path, *, is_long: bool
) -> None:
    bare, through = _both(spark, tmp_path)
    # Parquet's own dictionaries distinguish the two zeros; this test is about the files that Delta skips
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    conditions = [*map(F.expr, FIXED), *_compared(bare)][:: 1 if is_long else 3]
    counts = [F.count_if(condition).alias(f"c{index}") for index, condition in enumerate(conditions)]
    expected = tuple(bare.agg(*counts).first() or ())
    found = tuple(through.where(condition).count() for condition in conditions)
    spark.conf.unset("spark.sql.parquet.filterPushdown")
    assert found == expected
    assert sum(expected) > (100 if is_long else 30)


@pytest.mark.soak
def test_files_are_skipped_at_all(spark: SparkSession, tmp_path: Path) -> None:
    _, through = _both(spark, tmp_path)
    for condition in OF_ONE_FILE:
        assert len(through.where(condition).inputFiles()) == 1, condition


def _both(spark: SparkSession, root: Path) -> tuple[DataFrame, DataFrame]:
    """Return the same forty rows in eight slices: from their files, and through Delta."""
    lake = Lake(str(root))
    folder = lake.folder("a.b")
    frame = spark.sql(ROWS)
    manifests = [
        write_slices(
            frame.where(f"id div 5 = {number}").coalesce(1),
            folder=folder,
            claim=number + 1,
            labels=[hour(number)],
            lake=lake,
            code="c",
        ).manifests[0]
        for number in range(8)
    ]
    create_table(folder, frame.schema, is_partitioned=False, project=PROJECT)
    commit_slices(folder, Identity(PROJECT, "a.b", "collect", (), "", 1, "c"), manifests, mode="append")
    return frame_of_slices(spark, folder, manifests), spark.read.format("delta").load(folder)


def _compared(bare: DataFrame) -> list[Column]:
    """Return comparisons of each column with some of its own values."""
    dice = random.Random(3)
    rows = bare.select("*", "st.a").collect()
    found = []
    for name in COLUMNS:
        value = F.lit(dice.choice(rows)[name.rpartition(".")[2]])
        left = F.col(name)
        compared = [left == value, left >= value, left <= value, left > value, left < value]
        found += dice.sample(compared, 3)
    return found
