"""Values of a DuckDB database become rows of Spark's types, of one moment, and are delivered back."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.systems import DuckDatabase, query_of
from waterclock.connectors.duckdb.collection import DuckdbCollector
from waterclock.connectors.duckdb.connector import CONNECTOR
from waterclock.connectors.interface import WindowRequest
from waterclock.errors import WaterclockError
from waterclock.testing.connectors import declared
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OPEN = declared()
MANY = 120_000


@pytest.fixture
def database(tmp_path: Path) -> DuckDatabase:
    return DuckDatabase(tmp_path)


@pytest.fixture
def collector(database: DuckDatabase) -> DuckdbCollector:
    return CONNECTOR.collector(database.setting)


def test_each_type_becomes_its_counterpart(
    spark: SparkSession, database: DuckDatabase, collector: DuckdbCollector
) -> None:
    database.run(
        "CREATE TABLE totals AS SELECT true AS b, 1::TINYINT AS i, 255::UTINYINT AS ui, "
        " 18446744073709551615::UBIGINT AS ub,"
        " 170141183460469231731687303715884105::HUGEINT AS h, 1.5::FLOAT AS f, 12.34::DECIMAL(10,2) AS d, 'é' AS s,"
        " '\\xAA'::BLOB AS x, DATE '2024-02-29' AS day, TIMESTAMP '2024-03-31 02:30:00.000001' AS local,"
        " TIMESTAMPTZ '2024-02-29 12:00:00.000001+01' AS instant, uuid() AS u, 'a'::ENUM('a', 'b') AS e,"
        " TIME '01:00' AS t,"
        " [1, NULL] AS l, {'k': 1, 'of': ['x']} AS r, MAP {'k': 2.5::DECIMAL(3,1)} AS m, {'at': DATE '2024-01-01'} AS n"
    )
    collected = collector.read_snapshot(spark, database.unit, OPEN, "Europe/Berlin")
    types = dict(collected.frame.dtypes)
    assert types["ub"] == "decimal(20,0)"
    assert (types["ui"], types["h"], types["m"]) == ("smallint", "decimal(38,0)", "map<string,decimal(3,1)>")
    assert types["r"] == "struct<k:int,of:array<string>>"
    row = collected.frame.collect()[0]
    assert (row.b, row.i, row.ui, row.f, row.d, row.s, row.x) == (True, 1, 255, 1.5, Decimal("12.34"), "é", b"\xaa")
    assert row.ub == 18446744073709551615
    assert row.day == date(2024, 2, 29)
    assert [at.astimezone(UTC).isoformat() for at in (row.local, row.instant)] == [
        "2024-03-31T01:30:00.000001+00:00",  # a skipped time is moved forward by the gap
        "2024-02-29T11:00:00.000001+00:00",
    ]
    assert (len(row.u), row.e, row.t) == (36, "a", "01:00:00")
    assert (row.l, row.r.of, row.m) == ([1, None], ["x"], {"k": Decimal("2.5")})
    assert row.n.at == date(2024, 1, 1)


@pytest.mark.parametrize(
    "view",
    ["SELECT content FROM read_text('{}')", "SELECT * FROM read_csv('{}')", "SELECT file FROM glob('/etc/*')",
     "SELECT content FROM read_blob('/proc/self/environ')", "SELECT * FROM '{}'"],
)  # fmt: skip
def test_a_view_reads_no_other_file(
    spark: SparkSession, database: DuckDatabase, collector: DuckdbCollector, tmp_path: Path, view: str
) -> None:
    """A view in an untrusted file would run as the user of the runner, who can read secrets."""
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    database.run(f"CREATE VIEW totals AS {view.format(tmp_path / 'secret.csv')}")
    with pytest.raises(WaterclockError, match="reads another file or database") as refused:
        collector.read_snapshot(spark, database.unit, OPEN, "UTC").frame.collect()
    assert refused.value.code == "E813"
    assert "TYPE files" in str(refused.value.fix)


def test_types_without_a_counterpart_are_refused_unless_declared_as_string(
    spark: SparkSession, database: DuckDatabase, collector: DuckdbCollector
) -> None:
    nanos = "2024-01-01 00:00:00.000000001"
    database.run(f"CREATE TABLE totals AS SELECT INTERVAL 1 DAY AS i, TIMESTAMP_NS '{nanos}' AS ns, [1] AS l")
    with pytest.raises(WaterclockError, match="E815") as raised:
        collector.read_snapshot(spark, database.unit, OPEN, "UTC")
    assert raised.value.fix == "declare the columns: (i STRING, ns STRING, *); STRING accepts any type, as its text"
    columns = declared(("i", "STRING"), ("ns", "STRING"), ("l", "STRING"))
    row = collector.read_snapshot(spark, database.unit, columns, "UTC").frame.collect()[0]
    assert (row.i, row.ns, row.l) == ("1 day", nanos, "[1]")


@pytest.mark.parametrize(
    ("sql", "kind", "value"),
    [
        ("1.5", "INT", "1.5"),
        ("'x'", "INT", "x"),
        ("'infinity'::TIMESTAMPTZ", "TIMESTAMP", ""),
        ("300", "TINYINT", "300"),
    ],
)
def test_a_value_that_does_not_fit_stops_the_batch(
    spark: SparkSession, database: DuckDatabase, collector: DuckdbCollector, sql: str, kind: str, value: str
) -> None:
    database.run(f"CREATE TABLE totals AS SELECT {sql} AS v")
    with pytest.raises(WaterclockError, match="E812") as raised:
        collector.read_snapshot(spark, database.unit, declared(("v", kind)), "UTC").frame.collect()
    assert value in raised.value.what


@pytest.mark.sampled(1)
@pytest.mark.parametrize("by_window", [False, True])
def test_a_large_result_is_read_by_a_worker_with_writes_blocked(
    spark: SparkSession, database: DuckDatabase, collector: DuckdbCollector, by_window: bool
) -> None:
    database.run(
        "CREATE TABLE totals AS SELECT range AS id,"
        f" TIMESTAMPTZ '2024-01-01 00:00Z' + INTERVAL 1 SECOND * range AS moment FROM range({MANY})"
    )
    day = datetime(2024, 1, 1, tzinfo=UTC)
    windows = tuple(Window(day.replace(day=1 + at), day.replace(day=2 + at)) for at in range(2))
    if by_window:
        collected = collector.read_windows(spark, database.unit, WindowRequest("moment", windows), OPEN, "UTC")
    else:
        collected = collector.read_snapshot(spark, database.unit, OPEN, "UTC")
    deliverer = CONNECTOR.deliverer(database.setting)
    with pytest.raises(WaterclockError, match="E811"):
        deliverer.kill(database.unit, "ours", "ops.totals", 1)
    if by_window:
        counted = {row.timelabel: row["count"] for row in collected.frame.groupBy("timelabel").count().collect()}
        assert counted == {"20240101000000": 86_400, "20240102000000": MANY - 86_400}
    else:
        assert collected.frame.count() == MANY
    assert collected.set_aside() == {}
    assert deliverer.kill(database.unit, "ours", "ops.totals", 1).claim == 1


def test_an_error_in_a_worker_is_reported_in_full(
    spark: SparkSession, database: DuckDatabase, collector: DuckdbCollector
) -> None:
    database.run(
        f"CREATE TABLE totals AS SELECT CASE WHEN range = {MANY - 1} THEN 'x' ELSE '1' END AS v FROM range({MANY})"
    )
    columns = declared(("v", "INT"))
    collected = collector.read_snapshot(spark, database.unit, columns, "UTC")
    with pytest.raises(Exception, match="waterclock-error") as raised:
        collected.frame.count()
    collected.close()
    told = collector.explain(database.unit, columns, raised.value)
    assert told is not None
    assert (told.code, "holds 'x'" in told.what) == ("E812", True)


def test_a_query_is_read_and_its_end_may_be_a_comment(spark: SparkSession, collector: DuckdbCollector) -> None:
    unit = query_of("ops", "SELECT 1 AS one -- the end")
    rows: list[Any] = collector.read_snapshot(spark, unit, OPEN, "UTC").frame.collect()
    assert [row.one for row in rows] == [1]
