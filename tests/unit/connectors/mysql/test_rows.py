"""Rows of MariaDB and MySQL are converted to Arrow, without Spark."""

from __future__ import annotations

import gc
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pymysql.err import OperationalError

from tests.systems import MysqlDatabase
from waterclock.connectors.arrow_values import Times
from waterclock.connectors.column_matching import match
from waterclock.connectors.mysql import rows
from waterclock.connectors.mysql.collection import MysqlCollector
from waterclock.connectors.mysql.connector import CONNECTOR
from waterclock.connectors.mysql.database import MysqlDatabase as AtServer
from waterclock.connectors.mysql.database import database_of, translate_error
from waterclock.connectors.mysql.dialect import source_of
from waterclock.connectors.mysql.extract import (
    MysqlExtract,
    MysqlRequestedColumn,
    count_excluded_rows,
    digest_of,
    parts_of,
)
from waterclock.connectors.mysql.types import columns_of
from waterclock.connectors.sql.columns import require_declared_types
from waterclock.connectors.windowing import NO_TIME, UNREADABLE_TIME
from waterclock.errors import WaterclockError
from waterclock.flow.awaits import Awaits
from waterclock.flow.enums import WindowSignal
from waterclock.testing.connectors import declared
from waterclock.timelabel.window import Window

pytestmark = pytest.mark.slow

DAY = datetime(2013, 1, 1, tzinfo=UTC)
ONE_DAY = timedelta(days=1)
# for each column: its type, its value in SQL, the resulting Spark type, and the expected value
EVERY_TYPE: dict[str, tuple[str, str, str, Any]] = {
    "b": ("boolean", "true", "TINYINT", 1),
    "i1": ("tinyint", "-128", "TINYINT", -128),
    "u1": ("tinyint unsigned", "255", "SMALLINT", 255),
    "i2": ("smallint", "-32768", "SMALLINT", -32768),
    "u2": ("smallint unsigned", "65535", "INT", 65535),
    "i3": ("mediumint", "-8388608", "INT", -8388608),
    "u3": ("mediumint unsigned", "16777215", "INT", 16777215),
    "i4": ("int", "2147483647", "INT", 2147483647),
    "u4": ("int unsigned", "4294967295", "BIGINT", 4294967295),
    "z4": ("int(7) zerofill", "42", "BIGINT", 42),
    "i8": ("bigint", "-9223372036854775808", "BIGINT", -9223372036854775808),
    "u8": ("bigint unsigned", "18446744073709551615", "DECIMAL(20,0)", Decimal(18446744073709551615)),
    "f4": ("float", "16777217", "FLOAT", 16777216.0),
    "f8": ("double", "1.7976931348623157e308", "DOUBLE", 1.7976931348623157e308),
    "n": ("decimal(20,4)", "-1234567890123456.7891", "DECIMAL(20,4)", Decimal("-1234567890123456.7891")),
    "nu": ("decimal(5,2) unsigned", "1.50", "DECIMAL(5,2)", Decimal("1.50")),
    "n0": ("decimal(38,0)", "9" * 38, "DECIMAL(38,0)", Decimal("9" * 38)),
    "b1": ("bit(1)", "b'1'", "BOOLEAN", True),
    "b9": ("bit(9)", "b'100000001'", "BIGINT", 257),
    "b64": ("bit(64)", "18446744073709551615", "DECIMAL(20,0)", Decimal(18446744073709551615)),
    "y": ("year", "2013", "SMALLINT", 2013),
    "d": ("date", "'2013-02-28'", "DATE", date(2013, 2, 28)),
    "d1": ("date", "'0001-01-01'", "DATE", date(1, 1, 1)),
    "ts": ("timestamp(6) null", "'2013-07-01 05:00:00.123456'", "TIMESTAMP",
           datetime(2013, 7, 1, 5, 0, 0, 123456, tzinfo=UTC)),
    "dt": ("datetime(3)", "'2013-07-01 05:00:00.123'", "TIMESTAMP", datetime(2013, 7, 1, 9, 0, 0, 123000, tzinfo=UTC)),
    "tm": ("time(1)", "'-838:59:59.0'", "STRING", "-838:59:59.0"),
    "c": ("char(3)", "'x'", "STRING", "x"),
    "v": ("varchar(40) character set utf8mb4", "'a\"b\\n,\\\\ \U0001f600'", "STRING", 'a"b\n,\\ \U0001f600'),
    "v3": ("varchar(9) character set utf8mb3", "'\u0436'", "STRING", "\u0436"),
    "l": ("varchar(9) character set latin1", "'caf\u00e9'", "STRING", "caf\u00e9"),
    "t": ("longtext", "''", "STRING", ""),
    "bl": ("blob", "x'00ff'", "BINARY", b"\x00\xff"),
    "vb": ("varbinary(3)", "x'00ff'", "BINARY", b"\x00\xff"),
    "e": ("enum('sad','happy')", "'happy'", "STRING", "happy"),
    "s": ("set('a','b','c')", "'c,a'", "STRING", "a,c"),
    "j": ("json", "'{\"a\": [1, null]}'", "STRING", '{"a": [1, null]}'),
    "u": ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "STRING", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "ip": ("inet6", "'::1'", "STRING", "::1"),
}  # fmt: skip


@pytest.fixture
def database(tmp_path: Path) -> MysqlDatabase:
    return MysqlDatabase(tmp_path)


class Reading:
    """Reads a table as a collector does, without Spark."""

    def __init__(self, database: MysqlDatabase, zone: str = "America/New_York") -> None:
        self.database = database_of(database.setting)
        self.unit = database.unit
        self.zone = zone

    def extract(self, opened: Any, *columns: tuple[str, str | None], by: str = "", windows: Any = ()) -> MysqlExtract:
        there = columns_of(opened, self.unit)
        matched = match(declared(*columns), [column.source_column for column in there], where=str(self.unit))
        require_declared_types(matched, there, self.unit)
        by_name = {column.name: column for column in there}
        wanted = tuple(MysqlRequestedColumn(taken, by_name[taken.source]) for taken in matched.taken)
        by_window = MysqlCollector(self.database)._window_filter(by, windows, there, self.unit) if by else None
        return MysqlExtract(self.database, str(self.unit), source_of(self.unit), wanted, Times(self.zone), by_window)

    def rows(self, *columns: tuple[str, str | None], by: str = "", windows: Any = ()) -> list[dict[str, Any]]:
        with self.database.open_for_reading(str(self.unit)) as opened:
            extract = self.extract(opened, *columns, by=by, windows=windows)
            return [row for batch in rows.batches(opened, extract) for row in batch.to_pylist()]


def test_every_type_keeps_its_values(database: MysqlDatabase) -> None:
    listed = ", ".join(f"{name} {kind}" for name, (kind, _, _, _) in EVERY_TYPE.items())
    database.run(f"CREATE TABLE totals ({listed}) CHARACTER SET utf8mb4")
    database.run(f"INSERT INTO totals VALUES ({', '.join(value for _, value, _, _ in EVERY_TYPE.values())})")
    database.run(f"INSERT INTO totals ({', '.join(EVERY_TYPE)}) VALUES ({', '.join(['NULL'] * len(EVERY_TYPE))})")
    first, nothing = Reading(database).rows()
    for name, (_, _, _, comes) in EVERY_TYPE.items():
        assert first[name] == comes, name
    assert set(nothing.values()) == {None}
    types = CONNECTOR.collector(database.setting).schema(database.unit)
    assert types == {name: spark for name, (_, _, spark, _) in EVERY_TYPE.items()}


def test_types_of_a_query_are_those_of_its_expressions(database: MysqlDatabase) -> None:
    reading = Reading(database)
    reading.unit = type(database.unit)(
        "ops", "", "SELECT 1 AS a, 1.50 AS b, 'x' AS c, NOW() > '2000-01-01' AS d, SUM(5) AS e, 1e0 AS f -- all\n;",
        {}, database.unit.place,
    )  # fmt: skip
    assert reading.rows() == [{"a": 1, "b": Decimal("1.50"), "c": "x", "d": 1, "e": Decimal(5), "f": 1.0}]


REFUSED = {"huge": ("decimal(65,2)", "'1.50'", "1.50"), "place": ("point", "POINT(1, 2)", "POINT(1 2)")}


def test_types_without_a_counterpart_are_refused_by_name_all_at_once(database: MysqlDatabase) -> None:
    database.run(f"CREATE TABLE totals (id int, {', '.join(f'{name} {kind[0]}' for name, kind in REFUSED.items())})")
    database.run(f"INSERT INTO totals VALUES (1, {', '.join(kind[1] for kind in REFUSED.values())})")
    with pytest.raises(WaterclockError) as refused:
        Reading(database).rows()
    assert refused.value.code == "E815"
    assert refused.value.fix == (
        "declare the columns: (huge STRING, place STRING, *); STRING accepts any type, as its text"
    )
    [row] = Reading(database).rows(*((name, "STRING") for name in REFUSED))
    assert row == {"id": 1, **{name: kind[2] for name, kind in REFUSED.items()}}


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("date", "'0000-00-00'", None),
        ("date", "'2013-00-10'", None),
        ("datetime", "'0000-00-00 00:00:00'", None),
        ("timestamp null", "'0000-00-00 00:00:00'", None),
        ("decimal(10,4)", "1.005", "DECIMAL(20,2)"),
        ("decimal(20,2)", "12345678901234.5", "DECIMAL(10,2)"),
        ("text", "'twelve'", "INT"),
        ("bigint", "3000000000", "INT"),
        ("bigint unsigned", "18446744073709551615", "BIGINT"),
        ("text", "'1.555'", "DECIMAL(4,2)"),
        ("text", "'0x10'", "INT"),
        ("text", "'1_000'", "INT"),
        ("text", "''", "INT"),
        ("decimal(4,1)", "16.5", "INT"),
        ("tinyint(1)", "2", "BOOLEAN"),
        ("double", "1.5", "INT"),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_refused_and_never_converted(
    database: MysqlDatabase, kind: str, value: str, wanted: str | None
) -> None:
    database.run(f"CREATE TABLE totals (id int, x {kind})")
    database.server.run(f"SET STATEMENT sql_mode = '' FOR INSERT INTO {database.name}.totals VALUES (2, {value})")
    with pytest.raises(WaterclockError, match="x holds") as refused:
        Reading(database).rows(("x", wanted))
    assert refused.value.code == "E812"


@pytest.mark.parametrize(
    ("kind", "value", "wanted", "comes"),
    [
        ("text", "'12'", "INT", 12),
        ("int", "12", "STRING", "12"),
        ("int", "12", "DECIMAL(5,1)", Decimal("12.0")),
        ("text", "'true'", "BOOLEAN", True),
        ("tinyint(1)", "1", "BOOLEAN", True),
        ("date", "'0000-00-00'", "STRING", "0000-00-00"),
        ("datetime", "'2013-00-10 00:00:00'", "STRING", "2013-00-10 00:00:00"),
        ("decimal(4,1)", "1.5", "DOUBLE", 1.5),
        ("decimal(10,6)", "1.500000", "DECIMAL(4,2)", Decimal("1.50")),
        ("decimal(10,2)", "16.00", "INT", 16),
        ("bigint", "86400", "TIMESTAMP", datetime(1970, 1, 2, tzinfo=UTC)),
        ("text", "'2013-01-01T05:00:00+03:00'", "TIMESTAMP", datetime(2013, 1, 1, 2, tzinfo=UTC)),
        ("datetime", "'2013-01-01 05:00'", "TIMESTAMP_NTZ", datetime(2013, 1, 1, 5)),  # noqa: DTZ001
        ("bit(9)", "b'101'", "STRING", "000000101"),
        ("float", "1.1", "STRING", "1.100000023841858"),
        ("text", "'\u0436'", "BINARY", "\u0436".encode()),
    ],
)
def test_declared_types_are_kept(database: MysqlDatabase, kind: str, value: str, wanted: str, comes: object) -> None:
    database.run(f"CREATE TABLE totals (x {kind}) CHARACTER SET utf8mb4")
    database.server.run(f"SET STATEMENT sql_mode = '' FOR INSERT INTO {database.name}.totals VALUES ({value})")
    assert Reading(database).rows(("x", wanted)) == [{"x": comes}]


@pytest.mark.parametrize("kind", ["timestamp(6) null", "datetime(6)", "date"])
def test_rows_with_a_zero_date_are_counted_apart(database: MysqlDatabase, kind: str) -> None:
    database.run(f"CREATE TABLE totals (id int, at {kind})")
    database.server.run(
        f"SET STATEMENT sql_mode = '' FOR INSERT INTO {database.name}.totals VALUES"
        " (1, '2013-01-01'), (2, NULL), (3, '0000-00-00'), (4, '0000-00-00')"
    )
    reading = Reading(database, "UTC")
    with reading.database.open_for_reading("here") as opened:
        extract = reading.extract(opened, by="at", windows=[Window(DAY, DAY + ONE_DAY)])
        assert count_excluded_rows(opened, extract) == {NO_TIME: 1, UNREADABLE_TIME: 2}
        found = [row["id"] for batch in rows.batches(opened, extract) for row in batch.to_pylist()]
    assert found == [1]


def test_a_nonexistent_date_that_sorts_into_a_window_is_reported(database: MysqlDatabase) -> None:
    database.run("CREATE TABLE totals (id int, at date)")
    database.server.run(f"SET STATEMENT sql_mode = '' FOR INSERT INTO {database.name}.totals VALUES (1, '2013-01-00')")
    windows = [Window(DAY - ONE_DAY, DAY + ONE_DAY)]
    with pytest.raises(WaterclockError, match="not a calendar date") as refused:
        Reading(database, "UTC").rows(by="at", windows=windows)
    assert refused.value.code == "E812"


def test_a_time_that_is_text_is_refused(database: MysqlDatabase) -> None:
    database.run("CREATE TABLE totals (at text)")
    with pytest.raises(WaterclockError, match="which is not a time") as refused:
        Reading(database).rows(by="at", windows=[Window(DAY, DAY + ONE_DAY)])
    assert refused.value.code == "E815"
    cast = "SELECT *, CAST(`at` AS DATETIME(6)) AS `at_time` FROM `totals`"
    assert refused.value.fix == f"collect BY DATA TIME at_time FROM ops QUERY '{cast}'"


@pytest.mark.parametrize("by", ["", "at"])
def test_parts_contain_each_row_once_and_their_digests_detect_changes(database: MysqlDatabase, by: str) -> None:
    database.run(
        "CREATE TABLE totals AS SELECT seq AS id, TIMESTAMP'2013-01-01 00:00:00' + INTERVAL seq * 3 MINUTE AS at"
        " FROM seq_0_to_999"
    )
    database.run("ALTER TABLE totals ADD PRIMARY KEY (id), ADD KEY (at)")
    reading = Reading(database, "UTC")
    windows = [Window(DAY + at * ONE_DAY, DAY + (at + 1) * ONE_DAY) for at in range(3)]
    with reading.database.open_for_reading("here") as opened:
        extract = reading.extract(opened, by=by, windows=windows)
        parts = parts_of(opened, reading.unit, extract, 4)
        assert len(parts) == 4
        found = [row["id"] for part in parts for batch in rows.batches(opened, part) for row in batch.to_pylist()]
        assert sorted(found) == list(range(1000))
        assert sum(part.digest[0] for part in parts if part.digest) == 1000
        database.run("UPDATE totals SET at = at + INTERVAL 1 SECOND WHERE id = 700")
        assert [digest_of(opened, part) == part.digest for part in parts] == [True] * 4  # of one moment
    with reading.database.open_for_reading("here") as opened:
        assert [digest_of(opened, part) == part.digest for part in parts].count(False) == 1


@pytest.mark.soak
def test_a_reading_that_is_given_up_is_not_read_to_its_end(
    database: MysqlDatabase, capfd: pytest.CaptureFixture[str]
) -> None:
    database.run("CREATE TABLE totals AS SELECT seq AS id, REPEAT('x', 1000) AS pad FROM seq_0_to_99999")
    reading = Reading(database)
    with reading.database.open_for_reading("here") as opened:
        first = next(rows.batches(opened, reading.extract(opened)))
        assert first.num_rows < rows.BATCH_ROWS
    gc.collect()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("value", "is_there"),
    [("b'0'", False), ("b'1'", True), ("'0'", False), ("'0.0'", False), ("'7'", True), ("'TRUE'", True), ("''", False)],
)
def test_an_await_query_is_fulfilled_if_its_value_is_true_to_the_server(
    database: MysqlDatabase, value: str, *, is_there: bool
) -> None:
    kind = "bit(1)" if value.startswith("b") else "text"
    database.run(f"CREATE TABLE loads (done {kind})")
    database.run(f"INSERT INTO loads VALUES ({value})")
    collector = CONNECTOR.collector(database.setting)
    awaits = Awaits(WindowSignal.QUERY, "SELECT done FROM loads")
    assert collector.has_sign(database.unit, awaits, Window(DAY, DAY + ONE_DAY), "UTC") is is_there


def test_a_server_that_is_set_to_answer_with_few_rows_answers_with_all(database: MysqlDatabase) -> None:
    database.run("CREATE TABLE totals (id int)")
    database.run("INSERT INTO totals VALUES (1), (2), (3)")
    database.run("SET GLOBAL sql_select_limit = 1")
    try:
        assert [row["id"] for row in Reading(database).rows(("id", None))] == [1, 2, 3]
    finally:
        database.run("SET GLOBAL sql_select_limit = DEFAULT")


def test_a_table_that_is_altered_while_it_is_read_is_read_again(database: MysqlDatabase) -> None:
    database.run("CREATE TABLE totals (id int)")
    database.run("INSERT INTO totals VALUES (1)")
    reading = Reading(database)

    def read() -> None:
        with reading.database.open_for_reading("here") as opened:
            database.run("ALTER TABLE totals ADD COLUMN more int, ALGORITHM = COPY")
            list(rows.batches(opened, reading.extract(opened, ("id", None))))

    with pytest.raises(WaterclockError) as refused:
        read()
    assert (refused.value.code, refused.value.transient) == ("E814", True)


@pytest.mark.parametrize(
    ("number", "code", "passes"),
    [
        (1020, "E811", True),
        (1226, "E810", True),
        (2003, "E810", True),
        (1412, "E814", True),
        (1213, "E811", True),
        (1045, "E810", False),
        (1130, "E810", False),
        (1049, "E810", False),
    ],
)
def test_transient_server_errors_are_marked_as_transient(number: int, code: str, *, passes: bool) -> None:
    at = AtServer(address={}, name="127.0.0.1:3306/shop", connection="shop")
    error = translate_error(OperationalError(number, "as it is"), at, "here")
    assert (error.code, error.transient) == (code, passes)
    assert passes or "connections.shop" in str(error.fix)
