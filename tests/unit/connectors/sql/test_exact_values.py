"""Databases store the values that were sent, or the delivery is refused: values by column types by databases.

The oracle has no knowledge of types: it reads the stored values back and compares them.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, cast

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.systems import DuckDatabase, MysqlDatabase, PostgresDatabase, SqliteDatabase, setting_of
from waterclock.connectors.delivering import Delivered, Delivery
from waterclock.connectors.duckdb.database import _CONFIG
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode

pytestmark = pytest.mark.slow

LABEL = datetime(2013, 1, 1, tzinfo=UTC)
AT = datetime(2013, 1, 1, 5, 30, tzinfo=UTC)
D = Decimal
VALUES: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "INT": (pa.int32(), [0, -7, 100, 101, 2**24, 2**24 + 1]),
    "BIGINT": (pa.int64(), [1, 2**53, 2**53 + 1, 2**60, 2**63 - 1]),
    "DECIMAL(20,4)": (pa.decimal128(20, 4), [D("1.0050"), D("1.5000"), D("7.0000"), D("9007199254740993.0000"),
                                             D("1234567890123456.7891"), D("0.1000")]),
    "FLOAT": (pa.float32(), [0.5, float(np.float32(0.1)), 16777216.0, math.nan]),
    "DOUBLE": (pa.float64(), [0.5, 0.1, 0.1 + 0.2, 7.0, 1.005, float(np.float32(0.1)), 1e15 + 0.5, math.nan]),
    "DATE": (pa.date32(), [date(2013, 2, 28)]),
    "TIMESTAMP": (pa.timestamp("us", "UTC"), [LABEL, AT, AT.replace(second=1), AT.replace(microsecond=500_000),
                                              AT.replace(microsecond=123_456)]),
    "STRING": (pa.string(), ["", "abc", "abc   ", "ab ", " ab", "abcd", "A", "a", "7", "007", "1.50", "1.005", "1e3",
                             "0.1", "16777217", "9007199254740993", "12345678901234567890", "2013-02-28",
                             "2013-02-28 05:30:00", "2013-02-28 05:30:00.5", "2013-02-28 05:30:00.1234567",
                             "2013-02-28 05:30:00+02", "05:30:00", "05:30:00.5", "05:30:00+02", "1 day 02:03:04.5",
                             "-1 days +02:03:04", "\u00e9" * 40]),
    "ARRAY<DECIMAL(20,4)>": (pa.list_(pa.decimal128(20, 4)), [[D("1.5000"), None], [D("7.0000"), D("1.0050")]]),
    "ARRAY<STRING>": (pa.list_(pa.string()), [["abc", None], ["ab", "abc "], ["7", "16777217"]]),
}  # fmt: skip
POSTGRES = (
    *("numeric", "numeric(10,2)", "numeric(12,0)", "numeric(6,-2)", "cents", "numeric(10,2)[]", "cents[]", "money"),
    *("real", "double precision", "real[]", "integer", "bigint", "boolean", "text", "varchar(3)", "varchar(3)[]"),
    *("char(3)", "name", '"char"', "citext", "date", "timestamptz", "timestamptz(0)", "timestamp(1)", "time"),
    *("time(0)", "timetz", "interval", "interval(0)", "interval day", "jsonb"),
)
MARIADB = (
    *("decimal(10,2)", "decimal(30,0)", "int", "bigint", "float", "double", "varchar(3)", "char(3)", "longtext"),
    *("date", "datetime", "datetime(6)", "time", "timestamp(1)"),
)
DUCKDB = (
    *("DECIMAL(10,2)", "DECIMAL(30,0)", "FLOAT", "DOUBLE", "INTEGER", "BIGINT", "BOOLEAN", "VARCHAR", "DATE", "TIME"),
    *("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMPTZ", "DECIMAL(10,2)[]", "DOUBLE[]", "INTEGER[]"),
    *("VARCHAR[]", "INTEGER[][]"),
)
SQLITE = ("INTEGER", "REAL", "NUMERIC", "DECIMAL(10,2)", "TEXT", "VARCHAR(3)", "BLOB", "TIMESTAMP")
NONE_FITS = {"interval day", "INTEGER[][]"}
CASES = [
    *((PostgresDatabase, kind) for kind in POSTGRES),
    *((MysqlDatabase, kind) for kind in MARIADB),
    *((DuckDatabase, kind) for kind in DUCKDB),
    *((SqliteDatabase, kind) for kind in SQLITE),
]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("system", "kind"), CASES)
def test_a_value_is_stored_as_it_is_or_refused(system: type[Any], kind: str, tmp_path: Path) -> None:
    with opened(system(tmp_path)) as database:
        null = " NULL" if system is MysqlDatabase else ""
        database.run(f"CREATE TABLE totals (n INTEGER, v {kind}{null})")
        shown = shown_as(system, kind)
        claims, stored = itertools.count(1), 0
        for spark, (type_, values) in VALUES.items():
            for sent in sent_together(database, tmp_path, claims, spark, type_, values):
                found = dict(database.run(f"SELECT n, {shown} FROM totals"))
                if kind == "jsonb":
                    found = {n: value and json.loads(value, parse_float=D, parse_int=D) for n, value in found.items()}
                assert {n: value for n, value in found.items() if not is_same((*sent, None)[n], value)} == {}, spark
                assert len(found) == len(sent) + 1
                stored += len(sent)
        assert stored or kind in NONE_FITS


def sent_together(
    database: Any, folder: Path, claims: Iterator[int], spark: str, type_: pa.DataType, values: Sequence[Any]
) -> Iterator[Sequence[Any]]:
    """Yield the stored values of each delivery: all values at once, or one by one if one is refused."""
    for some in (values, *([value] for value in values)):
        try:
            deliver(database, folder, next(claims), spark, pa.array([*some, None], type_))
        except WaterclockError as refused:
            if refused.code not in {"E812", "E813"}:
                raise
            continue
        yield some
        if some is values:
            return


@contextmanager
def opened(database: Any) -> Iterator[Any]:
    """Make deliveries cheap: connect without a password, whose check is slow, and keep a file open."""
    if isinstance(database, PostgresDatabase):
        database.setting = setting_of("ops", Path(), url=database.server.url, schema=database.schema)
        database.server.run("CREATE EXTENSION IF NOT EXISTS citext SCHEMA pg_catalog")
        database.run("CREATE DOMAIN cents AS numeric(10,2)")
    if not isinstance(database, DuckDatabase):
        yield database
        return
    with closing(duckdb.connect(str(database.path), config=_CONFIG)) as held:
        held.execute("SET TimeZone = 'UTC'")
        database.run = lambda sql: held.execute(sql).fetchall()  # type: ignore[method-assign, misc]
        yield database


def deliver(database: Any, folder: Path, claim: int, spark: str, values: pa.Array, **changes: Any) -> Delivered:
    path = folder / f"{claim}.parquet"
    pq.write_table(pa.table({"n": pa.array(range(len(values)), pa.int32()), "v": values}), path)
    made = Delivery(
        project="flights",
        publish="ops.totals",
        claim=claim,
        label=LABEL + timedelta(days=claim),
        label_text=f"{LABEL + timedelta(days=claim):%Y%m%d%H%M%S}",
        mode=Mode.REPLACE,
        is_from_partitioned=False,
        columns=(("n", "INT"), ("v", spark)),
        files=(path,),
    )
    [delivered] = database.connector.deliverer(database.setting).deliver(database.unit, [replace(made, **changes)])
    return cast("Delivered", delivered)


def shown_as(system: type[Any], kind: str) -> str:
    """Return the expression that reads the column; cast if a driver pads, rounds or cannot represent its values."""
    if system is MysqlDatabase:
        return "CAST(v AS DOUBLE)" if kind == "float" else "v"
    as_text = ("char(3)", "jsonb", "interval", "interval(0)")
    others = {
        **dict.fromkeys(as_text, "v::text"), "money": "v::numeric", "cents[]": "v::numeric[]",
        "real": "v::double precision", "real[]": "v::double precision[]",
    }  # fmt: skip
    return others.get(kind, "v") if system is PostgresDatabase else "v"


def is_same(sent: Any, stored: Any) -> bool:
    """Return whether two values are equal: texts and integers by all characters, fractions as written."""
    if sent is None or stored is None:
        return sent is stored
    if isinstance(sent, list):
        return same_list(sent, stored)
    if isinstance(stored, datetime | date | time | timedelta):
        return same_time(sent, stored)
    if isinstance(stored, bool):
        return str(sent).lower() in ({"1", "true", "t"} if stored else {"0", "false", "f"})
    text = stored.decode() if isinstance(stored, bytes) else stored
    if isinstance(text, str) and (text in texts_of(sent) or is_span(sent, text)):
        return True
    return same_number(sent, text) and not (isinstance(text, str) and isinstance(sent, str))


def same_list(sent: list[Any], stored: Any) -> bool:
    if isinstance(stored, str):
        return is_json(sent, stored)
    return isinstance(stored, list) and len(sent) == len(stored) and all(map(is_same, sent, stored))


def texts_of(sent: Any) -> set[str]:
    if isinstance(sent, datetime):
        text = f"{sent:%Y-%m-%d %H:%M:%S}"
        return {f"{text}{fraction}{zone}" for fraction in ("", f".{sent:%f}", f".{sent:%f}".rstrip("0"))
                for zone in ("", "Z", "+00") if fraction.strip(".") or not sent.microsecond}  # fmt: skip
    return {str(sent)}


def is_span(sent: Any, stored: str) -> bool:
    """Return whether an interval printed by PostgreSQL equals a text: a number of seconds, or the same format."""
    try:
        return timedelta(seconds=float(sent)) == timedelta(
            **dict(zip(("hours", "minutes", "seconds"), map(float, stored.split(":")), strict=True))
        )
    except (ValueError, TypeError, OverflowError):
        return isinstance(sent, str) and stored == sent.replace("+", "")


def is_json(sent: list[Any], stored: str) -> bool:
    return bool([None if one is None else str(one) for one in sent] == json.loads(stored))


def same_number(sent: Any, stored: Any) -> bool:
    try:
        number = Decimal(repr(sent)) if isinstance(sent, float) else Decimal(sent)
        there = Decimal(repr(stored)) if isinstance(stored, float) else Decimal(stored)
    except (InvalidOperation, TypeError):
        return False
    if number.is_nan() or there.is_nan():
        return number.is_nan() and there.is_nan()
    if isinstance(sent, float):
        near = {number, Decimal(str(np.float32(sent)))} if sent == float(np.float32(sent)) else {number}
        return there in near or (isinstance(stored, float) and sent in {stored, float(np.float32(stored))})
    if not isinstance(stored, float):
        return number == there
    if number == number.to_integral_value():
        return number == Decimal(stored)
    return number in {there, Decimal(str(np.float32(stored)))}


def same_time(sent: Any, stored: Any) -> bool:
    if isinstance(stored, time):
        of_day = time.fromisoformat(sent) if isinstance(sent, str) else time.max
        return (of_day if of_day.tzinfo else of_day.replace(tzinfo=UTC)) == (
            stored if stored.tzinfo else stored.replace(tzinfo=UTC)
        )
    if isinstance(stored, timedelta):
        return isinstance(sent, str) and is_span(str(stored.total_seconds()), sent)
    if not isinstance(sent, str | date):
        return False
    at = datetime.fromisoformat(sent) if isinstance(sent, str) else sent
    return as_instant(at) == as_instant(stored)


def as_instant(value: date) -> datetime:
    at = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


STRUCT = pa.array([{"a": 1, "b": "abc"}])
TEXT_IN_A_TEXT = [
    ("pair", "STRING", pa.array(["(1,abc)"]), "(1,abc)"),
    ("pair[]", "ARRAY<STRING>", pa.array([["(1,abc)"]]), '{"(1,abc)"}'),
    ("pair", "STRUCT<a: INT, b: STRING>", STRUCT, "does not accept JSON"),
    ("jsonb", "STRUCT<a: INT, b: STRING>", STRUCT, '{"a": 1, "b": "abc"}'),
    ("priced", "STRING", pa.array(["(1,1.005)"]), "may cut or round a value (price numeric(10,2))"),
    ("priced[]", "ARRAY<STRING>", pa.array([["(1,1.005)"]]), "may cut or round a value (price numeric(10,2))"),
    ("numeric(10,2)[]", "STRING", pa.array(["{1.005}"]), "parses the text as an array"),
    ("text[]", "STRING", pa.array(["{a,b}"]), "{a,b}"),
    ("money", "STRING", pa.array(["1,000.005"]), "2 digits after the point"),
    ("money", "STRING", pa.array(["(1.005)"]), "2 digits after the point"),
]


@pytest.mark.parametrize(("kind", "spark", "values", "stored"), TEXT_IN_A_TEXT)
def test_values_inside_a_composite_text_are_stored_exactly_or_refused(
    kind: str, spark: str, values: pa.Array, stored: str, tmp_path: Path
) -> None:
    with opened(PostgresDatabase(tmp_path)) as database:
        database.run("CREATE TYPE pair AS (a int, b text); CREATE TYPE priced AS (a int, price numeric(10,2))")
        database.run(f"CREATE TABLE totals (n INTEGER, v {kind})")
        if stored.startswith(("(", "{")):
            deliver(database, tmp_path, 1, spark, values)
            assert database.run("SELECT v::text FROM totals") == [(stored,)]
            return
        with pytest.raises(WaterclockError, match="E812") as refused:
            deliver(database, tmp_path, 1, spark, values)
        assert stored in str(refused.value.why)
        assert database.run("SELECT v FROM totals") == []


def test_the_oracle_knows_a_bent_value() -> None:
    """Check that the oracle detects changed values."""
    for sent, stored in (
        (D("1.005"), D("1.01")), ("abc ", "abc"), (2**53 + 1, 2.0**53), ("16777217", 16777216.0),
        (AT.replace(microsecond=1), AT), ("007", "7"), (["7"], ["8"]), (AT, date(2013, 1, 1)), (0.1 + 0.2, 0.3),
        ("2013-02-28 05:30:00+02", datetime(2013, 2, 28, 5, 30)), (math.nan, None),  # noqa: DTZ001
    ):  # fmt: skip
        assert not is_same(sent, stored), (sent, stored)
