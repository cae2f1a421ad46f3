"""Reading PostgreSQL with Spark: cases that the conformance suites do not cover."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.postgres import server, wait_until
from tests.systems import PostgresDatabase, query_of, setting_of, unit_of
from waterclock.connectors import spark_frames
from waterclock.connectors.interface import Collected, WindowRequest
from waterclock.connectors.postgres import collection, extract, rows
from waterclock.connectors.postgres.connector import PostgresCollector
from waterclock.connectors.postgres.database import database_of
from waterclock.connectors.spark_frames import DIRECT_ROWS
from waterclock.errors import WaterclockError
from waterclock.flow.awaits import Awaits
from waterclock.flow.enums import WindowSignal
from waterclock.testing.connectors import declared
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = DIRECT_ROWS + 30_000
DAY = datetime(2013, 1, 1, tzinfo=UTC)
ONE_DAY = timedelta(days=1)
EVERY_TYPE = """
    CREATE TYPE mood AS ENUM ('sad', 'happy');
    CREATE DOMAIN price AS numeric(8,2) CHECK (VALUE >= 0);
    CREATE TABLE totals (
        b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(20,4), p price,
        t text, v varchar(9), c char(3), d date, tz timestamptz, ts timestamp, by bytea,
        j json, jb jsonb, u uuid, m mood, tm time, ip inet,
        ai int8[], af float8[], at text[], ab bool[], au uuid[], am mood[]);
    INSERT INTO totals VALUES (
        true, -32768, 2147483647, -9223372036854775808, 1.5, 'NaN', 1234567890123456.7891, 12.50,
        E'a"b\\n,c', '', 'x', '2013-02-28', '2013-01-01 05:00:00.123456+03', '2013-01-01 05:00:00.000001',
        '\\x00ff', '{"a": [1, null]}', '{"b": 2}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'happy', '12:34', '10.0.0.1',
        '{1,NULL,9007199254740993}', '{1.5}', '{"a,b",NULL,""}', '{t,f}', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}',
        '{sad}');
    INSERT INTO totals (t) VALUES (NULL);
"""
READ = {
    "b": True, "i2": -32768, "i4": 2147483647, "i8": -9223372036854775808, "f4": 1.5,
    "n": Decimal("1234567890123456.7891"), "p": Decimal("12.50"), "t": 'a"b\n,c', "v": "", "c": "x  ",
    "d": date(2013, 2, 28), "by": b"\x00\xff", "j": '{"a": [1, null]}', "jb": '{"b": 2}',
    "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "m": "happy", "tm": "12:34:00", "ip": "10.0.0.1",
    "ai": [1, None, 9007199254740993], "af": [1.5], "at": ["a,b", None, ""], "ab": [True, False],
    "au": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], "am": ["sad"],
}  # fmt: skip
REFUSED = {
    "amount": ("numeric", "DECIMAL(20,6)"), "huge": ("numeric(50,2)", "DECIMAL(20,6)"), "cash": ("money", "STRING"),
    "span": ("interval", "STRING"), "place": ("point", "STRING"), "many": ("int4range", "STRING"),
    "prices": ("numeric(8,2)[]", "STRING"), "bits": ("bit(3)", "STRING"), "days": ("date[]", "STRING"),
}  # fmt: skip


@pytest.fixture
def database(tmp_path: Path) -> PostgresDatabase:
    return PostgresDatabase(tmp_path)


@pytest.fixture
def big(database: PostgresDatabase) -> PostgresDatabase:
    database.run(
        "CREATE TABLE big AS SELECT id, '2013-01-01Z'::timestamptz + (id % 28) * interval '1 day' AS at,"
        f" id / 8.0::float8 AS amount, repeat('x', 100) AS pad FROM generate_series(0, {ROWS - 1}) AS id; ANALYZE big"
    )
    return database


def collector(database: PostgresDatabase) -> PostgresCollector:
    return PostgresCollector(database_of(database.setting))


def snapshot(spark: SparkSession, database: PostgresDatabase, *columns: tuple[str, str | None]) -> Collected:
    return collector(database).read_snapshot(spark, database.unit, declared(*columns), "UTC")


def rows_of(read: Collected) -> list[dict[str, Any]]:
    return [row.asDict() for row in read.frame.collect()]


def test_every_type_keeps_its_values(spark: SparkSession, database: PostgresDatabase) -> None:
    database.run(EVERY_TYPE)
    read = collector(database).read_snapshot(spark, database.unit, declared(), "America/New_York")
    first, nothing = sorted(rows_of(read), key=lambda row: row["i4"] is None)
    assert {name: first[name] for name in READ} == READ
    assert str(first["f8"]) == "nan"
    times = read.frame.selectExpr("CAST(tz AS STRING)", "CAST(ts AS STRING)").collect()
    assert tuple(times[0]) == ("2013-01-01 02:00:00.123456", "2013-01-01 10:00:00.000001")
    assert set(nothing.values()) == {None}
    types = dict(read.frame.dtypes)
    assert {types[name] for name in ("n", "p", "ai", "at", "tz", "by")} == {
        "decimal(20,4)", "decimal(8,2)", "array<bigint>", "array<string>", "timestamp", "binary",
    }  # fmt: skip


def test_types_without_a_counterpart_are_refused_by_name_all_at_once(
    spark: SparkSession, database: PostgresDatabase
) -> None:
    database.run(f"CREATE TABLE totals (id int, {', '.join(f'{name} {kind}' for name, (kind, _) in REFUSED.items())})")
    with pytest.raises(WaterclockError) as refused:
        snapshot(spark, database)
    assert refused.value.code == "E815"
    assert all(name in refused.value.what for name in REFUSED)
    listed = ", ".join(f"{name} {advised}" for name, (_, advised) in REFUSED.items())
    assert refused.value.fix == f"declare the columns: ({listed}, *); STRING accepts any type, as its text"


def test_any_type_is_taken_as_text_where_that_is_declared(spark: SparkSession, database: PostgresDatabase) -> None:
    database.run(f"CREATE TABLE totals ({', '.join(f'{name} {kind}' for name, (kind, _) in REFUSED.items())})")
    database.run(
        "INSERT INTO totals VALUES"
        " ('1e30', 12.34, 5, '1 day 02:00', '(1,2)', '[1,5)', '{1.5,2}', B'101', '{2013-01-01}')"
    )
    [row] = rows_of(snapshot(spark, database, *((name, "STRING") for name in REFUSED)))
    assert row == {
        "amount": "1000000000000000000000000000000", "huge": "12.34", "cash": "$5.00", "span": "1 day 02:00:00",
        "place": "(1,2)", "many": "[1,5)", "prices": "{1.50,2.00}", "bits": "101", "days": "{2013-01-01}",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("numeric", "1.005", "DECIMAL(20,2)"),
        ("numeric", "'NaN'", "DECIMAL(20,2)"),
        ("numeric(20,2)", "12345678901234.5", "DECIMAL(10,2)"),
        ("timestamptz", "'infinity'", None),
        ("timestamp", "'-infinity'", None),
        ("date", "'0044-03-15 BC'", None),
        ("text", "'twelve'", "INT"),
        ("int8", "3000000000", "INT"),
        ("int4[]", "'{{1,2},{3,4}}'", None),
        ("float8[]", "'{1.5}'", "ARRAY<INT>"),
        ("text", "'123456789.55'", "DECIMAL(4,2)"),
        ("text", "'1.555'", "DECIMAL(4,2)"),
        ("text", "'0x10'", "INT"),
        ("text", "'1_000'", "INT"),
        ("text", "''", "INT"),
        ("text", "'1e3'", "BIGINT"),
        ("text", "'3000000000.00'", "INT"),
        ("numeric", "16.5", "INT"),
        ("numeric", "100.00", "DECIMAL(4,2)"),
        ("money", "5", "INT"),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_reported_and_never_converted(
    spark: SparkSession, database: PostgresDatabase, kind: str, value: str, wanted: str | None
) -> None:
    database.run(f"CREATE TABLE totals (id int, x {kind}); INSERT INTO totals VALUES (1, NULL), (2, {value})")
    with pytest.raises(WaterclockError, match="x holds") as refused:
        snapshot(spark, database, ("x", wanted))
    assert refused.value.code == "E812"


@pytest.mark.parametrize(
    ("kind", "value", "wanted", "comes"),
    [
        ("text", "'12'", "INT", 12),
        ("int4", "12", "STRING", "12"),
        ("int4", "12", "DECIMAL(5,1)", Decimal("12.0")),
        ("text", "'true'", "BOOLEAN", True),
        ("int4", "1", "BOOLEAN", True),
        ("bool", "true", "STRING", "t"),
        ("date", "'2013-01-02'", "STRING", "2013-01-02"),
        ("numeric", "1.5", "DOUBLE", 1.5),
        ("numeric", "1.500000", "DECIMAL(4,2)", Decimal("1.50")),
        ("numeric", "-1200.000", "DECIMAL(4,0)", Decimal(-1200)),
        ("numeric(20,8)", "-0.10", "DECIMAL(4,2)", Decimal("-0.10")),
        ("text", "'1.5000'", "DECIMAL(4,2)", Decimal("1.50")),
        ("numeric", "16.00", "INT", 16),
        ("text", "' -16. '", "BIGINT", -16),
        ("float8", "16", "BIGINT", 16),
        # a number that its type can only approximate is the nearest one
        ("int8", "9007199254740993", "DOUBLE", 9007199254740992.0),
        ("int8[]", "'{1,2}'", "STRING", "{1,2}"),
        ("int8", "86400", "TIMESTAMP", "1970-01-02 00:00:00"),
        ("text", "'2013-01-01T05:00:00+03:00'", "TIMESTAMP", "2013-01-01 02:00:00"),
        ("timestamp", "'2013-01-01 05:00'", "TIMESTAMP_NTZ", "2013-01-01 05:00:00"),
        ("jsonb", """'{"a": 1}'""", "STRING", '{"a": 1}'),
    ],
)
def test_declared_types_are_kept(
    spark: SparkSession, database: PostgresDatabase, kind: str, value: str, wanted: str, comes: object
) -> None:
    database.run(f"CREATE TABLE totals (x {kind}); INSERT INTO totals VALUES ({value})")
    frame = snapshot(spark, database, ("x", wanted)).frame
    if wanted.startswith("TIMESTAMP"):
        frame = frame.selectExpr("CAST(x AS STRING) AS x")
    assert frame.collect()[0].x == comes


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("partitions", "parts"), [(1, 1), (3, 3)])
def test_a_big_table_is_read_in_parts(spark: SparkSession, big: PostgresDatabase, partitions: int, parts: int) -> None:
    unit = unit_of("ops", "big", partitions=partitions)
    read = collector(big).read_snapshot(spark, unit, declared(), "UTC")
    placed = read.frame.selectExpr("*", "spark_partition_id() AS part")
    (found,) = placed.selectExpr("count(*)", "sum(id)", "sum(amount)", "count(DISTINCT part)").collect()
    assert tuple(found) == (ROWS, sum(range(ROWS)), sum(range(ROWS)) / 8, parts)
    assert read.set_aside() == {}


def test_the_number_of_parts_follows_the_size(
    spark: SparkSession, big: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extract, "ROWS_A_PART", 25_000)
    read = collector(big).read_snapshot(spark, unit_of("ops", "big"), declared(), "UTC")
    assert read.source["parts"] == -(-ROWS // 25_000)
    assert read.frame.count() == ROWS
    read.set_aside()


def test_parts_are_of_one_moment_whatever_is_written_meanwhile(spark: SparkSession, big: PostgresDatabase) -> None:
    unit = unit_of("ops", "big", partitions=4)
    read = collector(big).read_snapshot(spark, unit, declared(), "UTC")
    big.run("UPDATE big SET amount = -1; DELETE FROM big WHERE id < 1000; INSERT INTO big SELECT * FROM big LIMIT 5000")
    (found,) = read.frame.selectExpr("count(*)", "sum(id)", "min(amount)").collect()
    assert tuple(found) == (ROWS, sum(range(ROWS)), 0)
    read.set_aside()


@pytest.mark.parametrize("by_bytes", [False, True])
def test_rows_that_turn_out_to_be_many_are_read_by_workers_at_the_same_moment(
    spark: SparkSession, big: PostgresDatabase, monkeypatch: pytest.MonkeyPatch, *, by_bytes: bool
) -> None:
    monkeypatch.setattr(collection, "estimate_size", lambda *_: (0, 0))
    if by_bytes:  # the server is stopped while it sends
        monkeypatch.setattr(rows, "_BATCH_BYTES", 100_000)
        monkeypatch.setattr(collection, "DIRECT_ROWS", 10 * ROWS)
        monkeypatch.setattr(spark_frames, "DIRECT_BYTES", 200_000)
    read = collector(big).read_snapshot(spark, unit_of("ops", "big"), declared(), "UTC")
    big.run("DELETE FROM big WHERE id < 1000")
    assert read.source["parts"] == 1
    (found,) = read.frame.selectExpr("count(*)", "sum(id)").collect()
    assert tuple(found) == (ROWS, sum(range(ROWS)))
    assert read.set_aside() == {}


def test_the_moment_ends_with_the_counts(spark: SparkSession, big: PostgresDatabase) -> None:
    read = collector(big).read_snapshot(spark, unit_of("ops", "big", partitions=2), declared(), "UTC")
    assert read.frame.count() == ROWS
    held = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waterclock'"
        " AND state = 'idle in transaction' AND query LIKE '%pg_export_snapshot%'"
    )
    assert big.server.run(held) == [(1,)]
    read.set_aside()
    wait_until(lambda: big.server.run(held) == [(0,)])  # the server ends a session after its client has disconnected


def test_the_moment_ends_where_the_rows_are_given_up(spark: SparkSession, big: PostgresDatabase) -> None:
    big.run("ALTER TABLE big ADD COLUMN code text; UPDATE big SET code = CASE WHEN id = 70000 THEN 'x' ELSE '1' END")
    read = collector(big).read_snapshot(spark, unit_of("ops", "big", partitions=2), declared(("code", "INT")), "UTC")
    with pytest.raises(Exception, match="waterclock-error"):
        read.frame.selectExpr("sum(code)").collect()
    held = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_export_snapshot%' AND pid <> pg_backend_pid()"
    assert big.server.run(held) == [(1,)]
    read.close()
    wait_until(lambda: big.server.run(held) == [(0,)])  # the server ends a session after its client has disconnected
    read.close()


def test_windows_of_a_big_table_are_read_in_parts(spark: SparkSession, big: PostgresDatabase) -> None:
    windows = [Window(DAY + at * ONE_DAY, DAY + (at + 1) * ONE_DAY) for at in range(28)]
    unit = unit_of("ops", "big", partitions=3)
    read = collector(big).read_windows(spark, unit, WindowRequest("at", windows), declared(), "UTC")
    counts = {row["timelabel"]: row["count"] for row in read.frame.groupBy("timelabel").count().collect()}
    assert counts == {window.label: len(range(at, ROWS, 28)) for at, window in enumerate(windows)}
    assert read.source["parts"] == 3
    read.set_aside()


def test_distant_windows_of_a_large_table_are_read_completely(spark: SparkSession, big: PostgresDatabase) -> None:
    windows = [Window(DAY + at * ONE_DAY, DAY + (at + 1) * ONE_DAY) for at in (0, 27)]
    read = collector(big).read_windows(spark, unit_of("ops", "big"), WindowRequest("at", windows), declared(), "UTC")
    counts = {row["timelabel"]: row["count"] for row in read.frame.groupBy("timelabel").count().collect()}
    assert counts == {window.label: len(range(at, ROWS, 28)) for window, at in zip(windows, (0, 27), strict=True)}
    read.set_aside()


@pytest.mark.soak
def test_partitions_by_local_time_contain_each_row_once_in_a_repeated_hour(
    spark: SparkSession, database: PostgresDatabase
) -> None:
    database.run(
        "CREATE TABLE big AS SELECT id, '2013-11-03 00:00'::timestamp + id * interval '0.2 seconds' AS at"
        f" FROM generate_series(0, {ROWS - 1}) AS id; ANALYZE big"
    )
    start = datetime(2013, 11, 3, 4, tzinfo=UTC)
    request = WindowRequest("at", [Window(start, start + timedelta(hours=25))])
    unit = unit_of("ops", "big", partitions=40)
    read = collector(database).read_windows(spark, unit, request, declared(), "America/New_York")
    (found,) = read.frame.selectExpr("count(*)", "count(DISTINCT id)").collect()
    assert tuple(found) == (ROWS, ROWS)
    read.set_aside()


def test_rows_of_one_null_and_a_byte_order_mark_are_rows_as_any(
    spark: SparkSession, database: PostgresDatabase
) -> None:
    database.run("CREATE TABLE totals (note text); INSERT INTO totals VALUES (E'\\uFEFFmarked'), (NULL), ('a'), (NULL)")
    read = rows_of(snapshot(spark, database))
    assert [row["note"] for row in read] == ["\ufeffmarked", None, "a", None]


def test_a_database_of_another_encoding_is_read_in_its_characters(spark: SparkSession, tmp_path: Path) -> None:
    name = server().fresh_schema()
    server().run(f"CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    url = server().url.removesuffix("/postgres") + f"/{name}"
    try:
        database = database_of(setting_of("ops", tmp_path, url=url, schema="public", timeout=0.2))
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            connection.execute("CREATE TABLE totals AS SELECT 'caf\u00e9' AS note")
        read = PostgresCollector(database).read_snapshot(spark, unit_of("ops", "totals"), declared(), "UTC")
        assert [row["note"] for row in rows_of(read)] == ["caf\u00e9"]
        read.set_aside()
    finally:
        server().run(f"DROP DATABASE {name} WITH (FORCE)")


def test_an_error_of_the_database_in_a_worker_is_reported(spark: SparkSession, big: PostgresDatabase) -> None:
    big.run("ALTER TABLE big ADD COLUMN code text; UPDATE big SET code = CASE WHEN id = 70000 THEN 'x' ELSE '1' END")
    unit = unit_of("ops", "big", partitions=2)
    read = collector(big).read_snapshot(spark, unit, declared(("code", "INT")), "UTC")
    with pytest.raises(Exception, match="waterclock-error") as raised:
        read.frame.selectExpr("sum(code)").collect()
    error = collector(big).explain(unit, declared(), raised.value)
    assert error is not None
    assert (error.code, "code holds 'x'" in error.what) == ("E812", True)
    read.set_aside()


def test_a_query_is_read_as_a_table_is(spark: SparkSession, database: PostgresDatabase) -> None:
    database.run(
        "CREATE TABLE totals (id int, at timestamptz); INSERT INTO totals VALUES (1, '2013-01-01Z'), (2, NULL)"
    )
    unit = query_of("ops", "SELECT id * 10 AS id, at FROM totals -- all of it\n;")
    window = Window(DAY, DAY + ONE_DAY)
    read = collector(database).read_windows(spark, unit, WindowRequest("at", [window]), declared(), "UTC")
    assert [row["id"] for row in rows_of(read)] == [10]
    assert sum(read.set_aside().values()) == 1


def test_an_index_on_the_time_is_used(spark: SparkSession, big: PostgresDatabase) -> None:
    """The window is found by the index, not filtered: the server reads no more than the window."""
    big.run("CREATE INDEX ON big (at); ANALYZE big")
    before = _blocks_scanned(big)
    window = Window(DAY + 3 * ONE_DAY, DAY + 4 * ONE_DAY)
    unit = unit_of("ops", "big")
    read = collector(big).read_windows(spark, unit, WindowRequest("at", [window]), declared(), "UTC")
    assert read.frame.count() == len(range(3, ROWS, 28))
    assert _blocks_scanned(big) == before


def _blocks_scanned(database: PostgresDatabase) -> int:
    database.run("SELECT pg_stat_force_next_flush()")
    [(count,)] = database.run("SELECT seq_scan FROM pg_stat_user_tables WHERE relid = to_regclass('big')")
    return int(count)


def test_a_date_is_the_midnight_of_its_day_in_the_zone(spark: SparkSession, database: PostgresDatabase) -> None:
    database.run("CREATE TABLE totals (id int, on_day date); INSERT INTO totals SELECT d, '2013-03-01'::date + d"
                 " FROM generate_series(0, 30) AS d")  # fmt: skip
    zone = "America/New_York"  # its clocks are set forward on the 10th
    starts = [
        datetime(2013, 3, 9, 5, tzinfo=UTC),
        datetime(2013, 3, 10, 5, tzinfo=UTC),
        datetime(2013, 3, 11, 4, tzinfo=UTC),
    ]
    windows = [
        Window(start, end)
        for start, end in zip(starts, [*starts[1:], datetime(2013, 3, 12, 4, tzinfo=UTC)], strict=True)
    ]
    read = collector(database).read_windows(spark, database.unit, WindowRequest("on_day", windows), declared(), zone)
    assert [row["id"] for row in sorted(rows_of(read), key=lambda row: row["id"])] == [8, 9, 10]


def test_a_time_that_is_text_is_refused(spark: SparkSession, database: PostgresDatabase) -> None:
    database.run("CREATE TABLE totals (at text)")
    request = WindowRequest("at", [Window(DAY, DAY + ONE_DAY)])
    with pytest.raises(WaterclockError, match="which is not a time") as refused:
        collector(database).read_windows(spark, database.unit, request, declared(), "UTC")
    assert refused.value.code == "E815"
    cast = """SELECT *, "at"::timestamptz AS "at_time" FROM "totals\""""
    assert refused.value.fix == f"collect BY DATA TIME at_time FROM ops QUERY '{cast}'"


def test_a_misspelt_table_is_reported_with_the_nearest_name(spark: SparkSession, database: PostgresDatabase) -> None:
    database.run("CREATE TABLE totals (id int)")
    for name in ("totalz", f"{database.schema}.totalz"):
        with pytest.raises(WaterclockError) as refused:
            collector(database).read_snapshot(spark, unit_of("ops", name), declared(), "UTC")
        assert (refused.value.code, refused.value.fix) == ("E804", "did you mean totals?")


@pytest.mark.parametrize(
    ("query", "is_there"),
    [
        ("SELECT upto >= :window_end FROM loads", False),
        ("SELECT upto >= :window_start AND :window_start::date = '2013-01-01' FROM loads", True),
        ("SELECT count(*) FROM loads WHERE label LIKE '%' || :timelabel", 1),
        ("SELECT NULL::bool", False),
        ("SELECT true WHERE false", False),
    ],
)
def test_an_await_query_decides_whether_a_window_is_complete(
    database: PostgresDatabase, query: str, *, is_there: bool
) -> None:
    database.run("CREATE TABLE loads AS SELECT '2013-01-01 12:00Z'::timestamptz AS upto, '20130101000000' AS label")
    window = Window(DAY, DAY + ONE_DAY)
    awaits = Awaits(WindowSignal.QUERY, query)
    assert collector(database).has_sign(database.unit, awaits, window, "Europe/Berlin") is bool(is_there)


def test_a_query_for_a_sign_changes_nothing(database: PostgresDatabase) -> None:
    database.run("CREATE TABLE loads (upto timestamptz)")
    with pytest.raises(WaterclockError, match="read-only"):
        collector(database).has_sign(
            database.unit,
            Awaits(WindowSignal.QUERY, "DELETE FROM loads RETURNING 1"),
            Window(DAY, DAY + ONE_DAY),
            "UTC",
        )
