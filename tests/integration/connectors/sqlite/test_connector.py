"""SQLite read with Spark: cases that the conformance suites do not cover."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.systems import SqliteDatabase, query_of, unit_of
from waterclock.connectors.interface import WindowRequest
from waterclock.connectors.spark_frames import DIRECT_ROWS
from waterclock.connectors.sqlite.collection import SqliteCollector
from waterclock.connectors.sqlite.database import database_of
from waterclock.testing.connectors import declared
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = DIRECT_ROWS + 30_000
DAY = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.fixture
def database(tmp_path: Path) -> SqliteDatabase:
    return SqliteDatabase(tmp_path)


@pytest.fixture
def big(database: SqliteDatabase) -> SqliteDatabase:
    database.run("CREATE TABLE big (id INTEGER PRIMARY KEY, at TIMESTAMP, amount REAL)")
    times = [f"2013-01-{1 + at % 28:02} {at % 24:02}:00:00" for at in range(ROWS)]
    database.run("INSERT INTO big VALUES (?, ?, ?)", [(at, time, at / 8) for at, time in enumerate(times)])
    return database


def collector(database: SqliteDatabase) -> SqliteCollector:
    return SqliteCollector(database_of(database.setting))


@pytest.mark.parametrize(("partitions", "parts"), [(1, 1), (3, 3)])
def test_a_big_table_is_read_in_bounded_memory(
    spark: SparkSession, big: SqliteDatabase, partitions: int, parts: int
) -> None:
    unit = unit_of("ops", "big", partitions=partitions)
    frame = collector(big).read_snapshot(spark, unit, declared(), "UTC").frame
    placed = frame.selectExpr("*", "spark_partition_id() AS part")
    (found,) = placed.selectExpr("count(*)", "sum(id)", "sum(amount)", "count(DISTINCT part)").collect()
    assert tuple(found) == (ROWS, sum(range(ROWS)), sum(range(ROWS)) / 8, parts)


def test_windows_of_a_big_table_are_read_in_parts(spark: SparkSession, big: SqliteDatabase) -> None:
    windows = [Window(DAY + at * timedelta(days=1), DAY + (at + 1) * timedelta(days=1)) for at in range(28)]
    unit = unit_of("ops", "big", partitions=2)
    read = collector(big).read_windows(spark, unit, WindowRequest("at", windows), declared(), "UTC")
    counts = {row["timelabel"]: row["count"] for row in read.frame.groupBy("timelabel").count().collect()}
    assert sum(counts.values()) == ROWS
    assert set(counts) == {window.label for window in windows}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_parts_of_different_moments_are_refused_and_tried_again(
    spark: SparkSession, big: SqliteDatabase, journal: str
) -> None:
    big.run(f"PRAGMA journal_mode = {journal}")
    unit = unit_of("ops", "big", partitions=2)
    reader = collector(big)
    frame = reader.read_snapshot(spark, unit, declared(), "UTC").frame
    big.run("UPDATE big SET amount = 0 WHERE id = 1")
    with pytest.raises(Exception) as caught:  # noqa: PT011 (Spark's error, which is explained)
        frame.count()
    told = reader.explain(unit, declared(), caught.value)
    assert told is not None
    assert (told.code, told.where, told.transient) == ("E814", "ops.big", True)
    assert reader.read_snapshot(spark, unit, declared(), "UTC").frame.count() == ROWS


def test_an_error_in_a_worker_is_reported_in_full(spark: SparkSession, big: SqliteDatabase) -> None:
    big.run(f"UPDATE big SET amount = 'heavy' WHERE id = {ROWS - 1}")
    unit = unit_of("ops", "big")
    reader = collector(big)
    frame = reader.read_snapshot(spark, unit, declared(), "UTC").frame
    with pytest.raises(Exception) as caught:  # noqa: PT011 (Spark's error, which is explained)
        frame.count()
    told = reader.explain(unit, declared(), caught.value)
    assert told is not None
    assert (told.code, told.what, told.where) == ("E812", "amount holds 'heavy', which is not DOUBLE", "ops.big")


def test_a_query_is_read_with_its_types(spark: SparkSession, database: SqliteDatabase) -> None:
    database.run("CREATE TABLE t (id INTEGER, price DECIMAL(12,2), built DATE)")
    database.run("INSERT INTO t VALUES (?, ?, ?)", [(1, "12.50", "2013-01-01"), (2, None, None)])
    unit = query_of("ops", "SELECT id, price, built FROM t ORDER BY id;")
    frame = collector(database).read_snapshot(spark, unit, declared(), "UTC").frame
    assert frame.schema.simpleString() == "struct<id:bigint,price:decimal(12,2),built:date>"
    assert [str(row["price"]) for row in frame.collect()] == ["12.50", "None"]


def test_a_query_is_read_by_windows(spark: SparkSession, database: SqliteDatabase) -> None:
    database.run("CREATE TABLE t (id INTEGER, at INTEGER)")
    database.run("INSERT INTO t VALUES (?, ?)", [(at, int(DAY.timestamp() * 1000) + at * 1_800_000) for at in range(6)])
    unit = query_of("ops", "SELECT id, at AS moment FROM t", epoch="milliseconds")
    windows = [Window(DAY + timedelta(hours=at), DAY + timedelta(hours=at + 1)) for at in (0, 1)]
    columns = declared(("moment", "TIMESTAMP"))
    read = collector(database).read_windows(spark, unit, WindowRequest("moment", windows), columns, "UTC")
    assert sorted((row["id"], row["timelabel"]) for row in read.frame.collect()) == [
        (0, "20130101000000"),
        (1, "20130101000000"),
        (2, "20130101010000"),
        (3, "20130101010000"),
    ]


def test_a_snapshot_is_of_one_moment_even_when_it_is_evaluated_later(
    spark: SparkSession, database: SqliteDatabase
) -> None:
    database.hold([{"id": "1", "note": "old"}])
    frame = collector(database).read_snapshot(spark, database.unit, declared(), "UTC").frame
    database.hold([{"id": "2", "note": "new"}])
    assert [row["note"] for row in frame.collect()] == ["old"]
