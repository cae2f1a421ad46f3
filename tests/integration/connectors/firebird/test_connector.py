"""Values of a Firebird database become rows of Spark's types, of one moment."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.systems import FirebirdDatabase, query_of, setting_of
from waterclock.connectors.firebird.collection import FirebirdCollector
from waterclock.connectors.firebird.database import database_of
from waterclock.connectors.interface import WindowRequest
from waterclock.errors import WaterclockError
from waterclock.testing.connectors import declared
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OPEN = declared()
FILL = (
    "EXECUTE BLOCK AS DECLARE i INTEGER = 0; BEGIN WHILE (i < 60000) DO BEGIN"
    " INSERT INTO totals VALUES (:i, DATEADD(:i SECOND TO TIMESTAMP'2013-01-01 00:00:00')); i = i + 1; END END"
)


@pytest.fixture
def database(tmp_path: Path) -> FirebirdDatabase:
    return FirebirdDatabase(tmp_path)


@pytest.fixture
def collector(database: FirebirdDatabase) -> FirebirdCollector:
    return FirebirdCollector(database_of(database.setting))


def test_each_type_becomes_its_counterpart(
    spark: SparkSession, database: FirebirdDatabase, collector: FirebirdCollector
) -> None:
    database.run(
        "CREATE TABLE totals (b BOOLEAN, i SMALLINT, n NUMERIC(18,4), f FLOAT, d DOUBLE PRECISION, s VARCHAR(9),"
        " c CHAR(3),"
        ' t BLOB SUB_TYPE TEXT, x BLOB, o VARCHAR(3) CHARACTER SET OCTETS, "Day" DATE, wall TIMESTAMP, clock TIME)'
    )
    database.run(
        "INSERT INTO totals VALUES (TRUE, -7, -1234567890.1234, 1.5, 0.1, 'é ', 'a', ?, x'AA', x'00FF', '2024-02-29',"
        " '2024-03-31 02:30:00.0001', '01:02:03.0004')",
        "ж" * 70_000,
    )
    columns = declared(("d", "STRING"))
    frame = collector.read_snapshot(spark, database.unit, columns, "Europe/Berlin").frame
    types = dict(frame.dtypes)
    assert (types["n"], types["x"], types["o"], types["clock"]) == ("decimal(18,4)", "binary", "binary", "string")
    row = frame.collect()[0]
    assert (row.b, row.i, row.n, row.f, row.d, row.s) == (True, -7, Decimal("-1234567890.1234"), 1.5, "0.1", "é ")
    assert (row.t, row.x, row.o) == ("ж" * 70_000, b"\xaa", b"\x00\xff")
    assert (row.c, row.Day, row.clock) == ("a  ", date(2024, 2, 29), "01:02:03.000400")
    assert row.wall.astimezone(UTC) == datetime(2024, 3, 31, 1, 30, 0, 100, tzinfo=UTC)  # after the gap


def test_many_rows_are_read_by_a_worker_each_in_its_window(
    spark: SparkSession, database: FirebirdDatabase, collector: FirebirdCollector
) -> None:
    database.run("CREATE TABLE totals (id INTEGER, moment TIMESTAMP)")
    database.run(FILL)
    edges = [datetime(2013, 1, 1, hour, tzinfo=UTC) for hour in (0, 8, 20)]
    windows = [Window(edges[0], edges[1]), Window(edges[1], edges[2])]
    read = collector.read_windows(spark, database.unit, WindowRequest("moment", windows), OPEN, "UTC")
    assert read.source["parts"] == 1
    found = {row.timelabel: row["count"] for row in read.frame.groupBy("timelabel").count().collect()}
    assert found == {windows[0].label: 8 * 3600, windows[1].label: 60_000 - 8 * 3600}


def test_a_query_and_its_names_in_lower_case(
    spark: SparkSession, database: FirebirdDatabase, collector: FirebirdCollector
) -> None:
    database.run("CREATE TABLE totals (id INTEGER)")
    database.run("INSERT INTO totals VALUES (3)")
    unit = query_of("ops", 'SELECT id * 2 AS twice, id AS "Once" FROM totals -- a comment')
    rows = collector.read_snapshot(spark, unit, OPEN, "UTC").frame.collect()
    assert [row.asDict() for row in rows] == [{"twice": 6, "Once": 3}]


def test_a_missing_table_and_an_unreachable_server_are_reported(
    spark: SparkSession, database: FirebirdDatabase, collector: FirebirdCollector
) -> None:
    with pytest.raises(WaterclockError, match="no table totals") as caught:
        collector.read_snapshot(spark, database.unit, OPEN, "UTC")
    assert caught.value.code == "E804"
    assert "unrelated" in str(caught.value.why)
    gone = setting_of("ops", Path(), **{**database.setting.options, "url": "firebird://KEEPER@127.0.0.1:1/x"})
    with pytest.raises(WaterclockError) as caught:
        FirebirdCollector(database_of(gone)).schema(database.unit)
    assert (caught.value.code, caught.value.transient) == ("E810", True)
