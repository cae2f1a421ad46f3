"""A DECIMAL within a nested value is read exactly or refused, from every source: compared with Python's decimals."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation, localcontext
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.systems import LandingFolder, unit_of
from waterclock.connectors.column_matching import CollectedColumn, ColumnMatch
from waterclock.connectors.files.connector import FilesCollector
from waterclock.connectors.kafka.collection import TopicShape
from waterclock.connectors.nested_decimals import narrow_value, type_to_read
from waterclock.flow.declarations import Value
from waterclock.spark_sql import decimal_of, sql_text
from waterclock.testing.connectors import declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPE = (
    "STRUCT<price: DECIMAL(10,2), parts: ARRAY<STRUCT<n: DECIMAL(3,1)>>, rates: MAP<STRING, DECIMAL(19,2)>, t: STRING>"
)
SCALARS = ("DECIMAL(10,2)", "DECIMAL(38,38)", "DECIMAL(5)", "STRING")
FAR = ("1e-99999999", "1e99999999", '"1e-99999999"', '"0e-99999999"')
ROW = "value BINARY, partition INT, offset BIGINT, timelabel STRING"
BY_DOUBLE = ("lines in latin", "records")
WAYS: dict[str, dict[str, Value]] = {
    "lines": {},
    "lines in latin": {"encoding": "ISO-8859-1"},
    "records": {"rows": "rows"},
    "documents": {"multiline": True},
}


def random_type(random: Random, depth: int) -> str:
    kind = random.choice(("struct", "array", "map") if depth == 0 else ("struct", "array", "map", *SCALARS * 2))
    if kind == "struct":
        names = random.sample(("a", "b c", "order", "d`e"), random.randint(1, 3))
        fields = (f"`{name.replace('`', '``')}`: {random_type(random, depth + 1)}" for name in names)
        return f"STRUCT<{', '.join(fields)}>"
    if kind == "array":
        return f"ARRAY<{random_type(random, depth + 1)}>"
    return f"MAP<STRING, {random_type(random, depth + 1)}>" if kind == "map" else kind


def random_value(random: Random, kind: Any) -> Any:
    """Return a random JSON value for a type in Delta's JSON, with texts for all scalars."""
    if random.random() < 0.15:
        return None
    if isinstance(kind, str):
        return random.choice(("1.25", "7.125", "-3", "0.10", "12345678.9", "n/a", "1e-99999999", "125e-2", "12.0"))
    if kind["type"] == "struct":
        return {field["name"]: random_value(random, field["type"]) for field in kind["fields"]}
    many = range(random.randint(0, 3))
    if kind["type"] == "array":
        return [random_value(random, kind["elementType"]) for _ in many]
    return {f"k{at}": random_value(random, kind["valueType"]) for at in many}


class Refused(Exception):
    """Raised if a number in a value does not fit its type."""


def meant(value: Any, kind: Any) -> Any:
    """Return the value with texts as decimals. Raises Refused if one would lose digits, or is not a number."""
    if value is None or kind == "string":
        return value
    if isinstance(kind, str):
        digits, places = decimal_of(kind) or (0, 0)
        with localcontext(Context(prec=500, Emin=MIN_EMIN, Emax=MAX_EMAX)):
            try:
                whole = Decimal(value).scaleb(places)
            except InvalidOperation:
                raise Refused from None
            if whole != whole.to_integral_value() or abs(whole) >= 10**digits:
                raise Refused
            return Decimal(value)
    if kind["type"] == "struct":
        return {field["name"]: meant(value.get(field["name"]), field["type"]) for field in kind["fields"]}
    if kind["type"] == "array":
        return [meant(each, kind["elementType"]) for each in value]
    return {key: meant(each, kind["valueType"]) for key, each in value.items()}


def plain(value: Any) -> Any:
    """Return a value of a row in Python's own types."""
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(6))
def test_a_value_of_any_type_is_read_whole_or_not_at_all(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    kind = next(kind for kind in iter(lambda: random_type(random, 0), "") if "DECIMAL" in kind)
    tree = spark.range(0).selectExpr(f"CAST(NULL AS {kind}) AS v").schema["v"].dataType.jsonValue()
    values = [random_value(random, tree) for _ in range(60)]
    rows = [(at, json.dumps({"v": value})) for at, value in enumerate(values)]
    read = f"from_json(text, {sql_text(f'v {type_to_read(kind)}')}).v AS v"
    parsed = spark.createDataFrame(rows, "at INT, text STRING").selectExpr("at", read)
    found = {row.at: plain(row.v) for row in parsed.selectExpr("at", f"{narrow_value('v', kind)} AS v").collect()}
    for at, value in enumerate(values):
        try:
            assert found[at] == meant(value, tree), (kind, value)
        except Refused:
            assert found[at] is None, (kind, value)


def far_value(number: str, place: int) -> str:
    places = ('{"price": %s}', '{"parts": [null, {"n": %s}]}', '{"rates": {"a": null, "b": %s}}')
    return places[place % len(places)] % number


def numbers(value: Any) -> Iterator[Decimal]:
    if isinstance(value, Decimal):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from numbers(each)


@pytest.mark.parametrize("number", FAR)
@pytest.mark.parametrize("way", WAYS)
def test_a_number_with_a_huge_exponent_in_a_file_is_refused_quickly(
    spark: SparkSession, tmp_path: Path, way: str, number: str
) -> None:
    """Spark's own reader would divide by a number of a hundred million digits, which takes hours."""
    folder = LandingFolder(tmp_path)
    path = folder.folder / "new" / "drop" / "a.json"
    path.parent.mkdir()
    columns, unit = declared(("of", TYPE)), unit_of("landing", "drop/a.json", **WAYS[way])
    begun = time.monotonic()
    text = f'{{"of": {far_value(number, list(WAYS).index(way) + FAR.index(number))}}}'
    path.write_text(f'{{"rows": [{text}]}}' if way == "records" else text)
    frame = FilesCollector(folder.setting).read_snapshot(spark, unit, columns, "UTC").frame
    if number == "1e-99999999" and way in BY_DOUBLE:
        assert list(numbers(plain(frame.collect()[0].of))) == [0], "as docs/limits.md documents"
    else:
        with pytest.raises(Exception, match="waterclock-misfit"):
            frame.collect()
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize("number", FAR)
def test_a_number_with_a_huge_exponent_in_a_topic_is_refused_quickly(spark: SparkSession, number: str) -> None:
    begun = time.monotonic()
    value = far_value(number, FAR.index(number))
    frame = spark.createDataFrame([(f'{{"of": {value}}}'.encode(), 0, 7, "l")], ROW)
    matched = ColumnMatch((CollectedColumn("of", "of", TYPE, is_typed=True),), ())
    read = TopicShape("json", has_metadata=False).select_columns(frame, matched, "UTC")
    if number == "1e-99999999":
        assert list(numbers(plain(read.collect()[0].of))) == [0], "as docs/limits.md documents"
    else:
        with pytest.raises(Exception, match="waterclock-record:0/7/of is not STRUCT"):
            read.collect()
    assert time.monotonic() - begun < 60


def test_no_digit_within_a_record_of_a_topic_is_lost(spark: SparkSession) -> None:
    value = b'{"of": {"price": 12345678.25, "parts": [{"n": "1.5"}, null], "rates": {"a": 12345678901234567.25}}}'
    frame = spark.createDataFrame([(value, 0, 7, "l")], ROW)
    matched = ColumnMatch((CollectedColumn("of", "of", TYPE, is_typed=True),), ())
    (row,) = TopicShape("json", has_metadata=False).select_columns(frame, matched, "UTC").collect()
    rates = {"a": Decimal("12345678901234567.25")}
    parts = [{"n": Decimal("1.5")}, None]
    assert plain(row.of) == {"price": Decimal("12345678.25"), "parts": parts, "rates": rates, "t": None}


def test_decimals_within_an_element_of_xml(spark: SparkSession, tmp_path: Path) -> None:
    folder = LandingFolder(tmp_path)
    path = folder.folder / "new" / "drop" / "a.xml"
    path.parent.mkdir()
    columns = declared(("of", "STRUCT<price: DECIMAL(10,2), part: ARRAY<STRUCT<n: DECIMAL(3,1)>>>"))
    unit = unit_of("landing", "drop/a.xml", rows="row")
    for price, is_read in (("7.10", True), ("", True), ("7.125", False), ("1e-99999999", False)):
        part = "<part><n>1.5</n></part><part><n/></part>"
        path.write_text(f"<all><row><of><price>{price}</price>{part}</of></row></all>")
        frame = FilesCollector(folder.setting).read_snapshot(spark, unit, columns, "UTC").frame
        if not is_read:
            with pytest.raises(Exception, match="waterclock-misfit"):
                frame.collect()
            continue
        (row,) = frame.collect()
        meant = {"price": Decimal(price) if price else None, "part": [{"n": Decimal("1.5")}, {"n": None}]}
        assert plain(row.of) == meant


def test_decimals_within_a_value_of_parquet(spark: SparkSession, tmp_path: Path) -> None:
    folder = LandingFolder(tmp_path)
    path = folder.folder / "new" / "drop" / "a.parquet"
    path.parent.mkdir()
    item = pa.struct([("n", pa.decimal128(9, 3))])
    kind = pa.struct([("price", pa.decimal128(12, 4)), ("part", pa.list_(item)), ("t", pa.string())])
    value = {"price": Decimal("7.1000"), "part": [{"n": Decimal("1.500")}, None], "t": "x"}
    columns = declared(("of", "STRUCT<price: DECIMAL(10,2), part: ARRAY<STRUCT<n: DECIMAL(3,1)>>, t: STRING>"))
    unit = unit_of("landing", "drop/a.parquet")
    for changed, is_read in (
        ({}, True),
        ({"price": Decimal("7.1250")}, False),
        ({"part": [{"n": Decimal("1.25")}]}, False),
    ):
        pq.write_table(pa.table({"of": pa.array([{**value, **changed}], kind)}), path)
        frame = FilesCollector(folder.setting).read_snapshot(spark, unit, columns, "UTC").frame
        if is_read:
            assert plain(frame.collect()[0].of) == value
            continue
        with pytest.raises(Exception, match="waterclock-misfit"):
            frame.collect()
