"""MariaDB and MySQL read with Spark: cases that the conformance suites do not cover."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.systems import MysqlDatabase, unit_of
from waterclock.connectors.interface import WindowRequest
from waterclock.connectors.mysql.collection import MysqlCollector
from waterclock.connectors.mysql.database import database_of
from waterclock.connectors.spark_frames import DIRECT_ROWS
from waterclock.testing.connectors import declared
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = DIRECT_ROWS + 10_000
DAY = datetime(2013, 1, 1, tzinfo=UTC)
ONE_DAY = timedelta(days=1)


@pytest.fixture
def big(tmp_path: Path) -> MysqlDatabase:
    database = MysqlDatabase(tmp_path)
    database.run(
        "CREATE TABLE big (PRIMARY KEY (id), KEY (at)) AS SELECT seq AS id,"
        f" TIMESTAMP'2013-01-01 00:00:00' + INTERVAL (seq % 28) DAY AS at, seq / 8e0 AS amount FROM seq_0_to_{ROWS - 1}"
    )
    return database


def collector(database: MysqlDatabase) -> MysqlCollector:
    return MysqlCollector(database_of(database.setting))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_big_table_is_read_by_workers(spark: SparkSession, big: MysqlDatabase, partitions: int) -> None:
    unit = unit_of("ops", "big", partitions=partitions)
    read = collector(big).read_snapshot(spark, unit, declared(), "UTC")
    placed = read.frame.selectExpr("*", "spark_partition_id() AS part")
    (found,) = placed.selectExpr("count(*)", "sum(id)", "sum(amount)", "count(DISTINCT part)").collect()
    assert tuple(found) == (ROWS, sum(range(ROWS)), sum(range(ROWS)) / 8, partitions)


@pytest.mark.soak
def test_parts_of_two_moments_are_refused_and_tried_again(spark: SparkSession, big: MysqlDatabase) -> None:
    unit = unit_of("ops", "big", partitions=2)
    request = WindowRequest("at", [Window(DAY + at * ONE_DAY, DAY + (at + 1) * ONE_DAY) for at in range(28)])
    read = collector(big).read_windows(spark, unit, request, declared(), "UTC")
    big.run("UPDATE big SET amount = -1 WHERE id = 7")
    with pytest.raises(Exception, match="waterclock-error") as raised:
        read.frame.selectExpr("sum(amount)").collect()
    error = collector(big).explain(unit, declared(), raised.value)
    assert error is not None
    assert (error.code, error.transient) == ("E814", True)
    again = collector(big).read_windows(spark, unit, request, declared(), "UTC")
    assert again.frame.count() == ROWS
