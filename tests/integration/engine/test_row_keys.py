"""`key_of` in Spark, in SQL and in Python, against its definition in plain Python."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import waterclock as wc
from tests.row_keys import encoded, key_of
from waterclock.engine.spark.errors import to_error
from waterclock.engine.spark.user_functions import register_functions
from waterclock.flow.declarations import Flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SIGNS = list("aZß0٣ǅé\u0301Ж漢ש-.@_ :/\t\n'\\\u0000\U0001f600")
SCHEMA = (
    "tiny TINYINT, small SMALLINT, whole INT, big BIGINT, cents DECIMAL(10, 2), wide DECIMAL(38, 18), text STRING, "
    "is_on BOOLEAN, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, raw BINARY"
)
COLUMNS = [part.split()[0] for part in SCHEMA.replace("(10, 2)", "").replace("(38, 18)", "").split(", ")]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def drawn_row(drawn: random.Random) -> tuple[object, ...]:
    micros = drawn.choice([0, 1, -1, drawn.randrange(-62_000_000_000_000_000, 253_000_000_000_000_000)])
    at = EPOCH + timedelta(microseconds=micros)
    cents = Decimal(drawn.choice([0, 1, -1, 100, drawn.randrange(-(10**9), 10**9)])).scaleb(-2)
    row = (
        drawn.randrange(-128, 128), drawn.randrange(-(2**15), 2**15), drawn.randrange(-(2**31), 2**31),
        drawn.choice([0, -(2**63), 2**63 - 1, drawn.randrange(-(2**63), 2**63)]), cents,
        Decimal(drawn.choice([0, 1, 10**18, -(10**37), drawn.randrange(-(10**37), 10**37)])).scaleb(-18),
        "".join(drawn.choices(SIGNS, k=drawn.randrange(12))), drawn.random() < 0.5, at.date(), at,
        at.replace(tzinfo=None), drawn.randbytes(drawn.randrange(4)),
    )  # fmt: skip
    return tuple(None if drawn.random() < 0.1 else value for value in row)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    register_functions(own, Path(), Flow(project="x", tables={}), ["key_of(x)"])
    return own


def test_sql_and_python_compute_the_documented_key_of_every_type(session: SparkSession) -> None:
    drawn = random.Random(11)
    rows = [drawn_row(drawn) for _ in range(200)]
    frame = session.createDataFrame(rows, SCHEMA)
    frame.createOrReplaceTempView("rows")
    singles = ", ".join(f"key_of({name}) AS k_{name}" for name in COLUMNS)
    made = session.sql(f"SELECT *, {singles}, key_of({', '.join(COLUMNS)}) AS k FROM rows")
    of_python = [wc.key_of(name).alias(f"p_{name}") for name in COLUMNS]
    found = made.select("*", *of_python, wc.key_of(*COLUMNS).alias("p")).collect()
    assert len(found) == len(rows)
    for row, values in zip(found, rows, strict=True):
        for name, value in zip(COLUMNS, values, strict=True):
            assert row[f"k_{name}"] == row[f"p_{name}"] == key_of(value), (name, value, encoded(value))
        assert row["k"] == row["p"] == key_of(*values)


def test_keys_depend_on_values_and_not_on_widths_zones_or_where_texts_are_cut(session: SparkSession) -> None:
    other = session.newSession()
    register_functions(other, Path(), Flow(project="x", tables={}), ["key_of(x)"])
    other.conf.set("spark.sql.session.timeZone", "America/New_York")
    at = "TIMESTAMP'2026-03-29 01:30:00Z', TIMESTAMP_NTZ'2026-03-29 02:30:00'"
    assert other.sql(f"SELECT key_of({at})").first() == session.sql(f"SELECT key_of({at})").first()
    equal = ["7", "7Y", "7L", "7BD", "7.00", "CAST(7 AS DECIMAL(38, 10))", "CAST('7' AS INT)"]
    assert set(session.sql(f"SELECT {', '.join(f'key_of({each})' for each in equal)}").first() or ()) == {key_of(7)}
    different = [
        "'ab', 'c'", "'a', 'bc'", "'abc'", "'', 'abc'", "'abc', ''", "NULL", "''", "NULL, NULL", "'NULL'", "'-'", "7",
        "'7'", "true", "'true'", "DATE'2026-01-01'", "'2026-01-01'", "TIMESTAMP'2026-01-01 00:00:00Z'",
        "TIMESTAMP_NTZ'2026-01-01 00:00:00'", "X'37'", "'37'", "'é'", "'e\u0301'", "'s1:a'", "'a'",
    ]  # fmt: skip
    found = session.sql(f"SELECT {', '.join(f'key_of({each})' for each in different)}").first() or ()
    assert len(set(found)) == len(different)
    assert all(len(key) == 64 for key in found)


@pytest.mark.parametrize(
    ("value", "kind"), [("1D", "DOUBLE"), ("CAST(1 AS FLOAT)", "FLOAT"), ("array(1)", "ARRAY<BIGINT>")]
)
def test_a_type_without_one_text_stops_the_query_with_its_name_and_the_fix(
    session: SparkSession, value: str, kind: str
) -> None:
    frame = session.sql(f"SELECT 1 AS id, {value} AS wrong")
    frame.createOrReplaceTempView("wrong")
    for made in (session.sql("SELECT key_of(id, wrong) FROM wrong"), frame.select(wc.key_of("id", "wrong"))):
        with pytest.raises(Exception, match="E238") as raised:
            made.collect()
        error = to_error(raised.value, where="marts.a@2026-01-01")
        assert error.code == "E238"
        assert error.why is not None
        assert error.why.startswith(f"the type is {kind}, ")


def test_a_struct_is_refused_before_the_query_runs(session: SparkSession) -> None:
    with pytest.raises(Exception, match="VARIANT") as raised:
        session.sql("SELECT key_of(struct(1, 2))").collect()
    error = to_error(raised.value, where="marts.a@2026-01-01")
    assert error.code == "E730"
    assert error.fix == "key_of takes simple values: pass each value of a STRUCT, MAP or INTERVAL on its own"
