"""Statistics are read from Parquet footers, and are never too narrow."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from waterclock.storage.slices.statistics import read_file

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TOP = "\U0010ffff"
texts = st.text(st.characters(codec="utf-8"), max_size=70)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "short_decimal": (pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2)),
    "long_decimal": (pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    "double": (pa.float64(), st.floats()),
    "float": (pa.float32(), st.floats(width=32)),
    "string": (pa.string(), texts),
    "long_string": (pa.string(), texts.map(lambda text: text + "x" * 40)),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(UTC))),
    "ntz": (pa.timestamp("us"), st.datetimes()),
    "boolean": (pa.bool_(), st.booleans()),
    "binary": (pa.binary(), st.binary(max_size=5)),
}


def read(path: Path, table: pa.Table, **options: Any) -> tuple[dict[str, Any], str]:
    pq.write_table(table, path / "f.parquet", **options)
    text = read_file(path, "f.parquet").stats
    return json.loads(text, parse_float=Decimal), text


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_for_every_value_and_nulls_are_counted(kind: str, tmp_path: Path) -> None:
    type_, values = KINDS[kind]

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
    @given(st.lists(st.none() | values, max_size=12), st.integers(1, 4))
    def holds(rows: list[Any], group: int) -> None:
        stats, _ = read(tmp_path, pa.table({"c": pa.array(rows, type_)}), row_group_size=group)
        present = [value for value in rows if value is not None]
        assert stats["numRecords"] == len(rows)
        assert stats["nullCount"] == {"c": len(rows) - len(present)}
        low, high = stats["minValues"].get("c"), stats["maxValues"].get("c")
        if kind in {"boolean", "binary"} or not present:
            assert (low, high) == (None, None)
            return
        _check(kind, present, low, high)

    holds()


def _check(kind: str, present: list[Any], low: Any, high: Any) -> None:
    if kind in {"double", "float"}:
        _check_floats(present, low, high)
    elif kind.endswith("string"):
        assert low == min(present)[:32]
        top = max(present)
        expected = top if len(top) <= 32 else None if top[32] == TOP else top[:32] + TOP
        assert high == expected
        assert expected is None or all(value.encode() <= expected.encode() for value in present)
    elif kind in {"timestamp", "ntz"}:
        zone = "Z" if kind == "timestamp" else ""
        assert (low, high) == (_iso(min(present)) + zone, _iso(max(present)) + zone)
    elif kind == "date":
        assert (low, high) == (min(present).isoformat(), max(present).isoformat())
    else:
        assert (Decimal(low), Decimal(high)) == (min(present), max(present))


def _iso(instant: datetime) -> str:
    return instant.replace(tzinfo=None).isoformat(timespec="microseconds")


def _check_floats(present: list[float], low: Any, high: Any) -> None:
    if any(math.isnan(value) for value in present):
        # Arrow omits NaN from a footer's bounds; Spark's footers contain it, which is tested with Spark
        return
    smallest, largest = min(present), max(present)
    assert (low is None) == math.isinf(smallest)
    assert (high is None) == math.isinf(largest)
    if low is not None:
        assert float(low) == smallest
        assert smallest or str(low) == "-0.0"
    if high is not None:
        assert float(high) == largest
        assert largest or str(high) == "0.0"


def test_decimals_are_bare_numbers_with_all_their_digits(tmp_path: Path) -> None:
    rows = [Decimal("-1.0000000001"), Decimal("12345678901234567890123456.0000000001")]
    _, text = read(tmp_path, pa.table({"c": pa.array(rows, pa.decimal128(38, 10))}))
    assert '"minValues":{"c":-1.0000000001}' in text
    assert '"maxValues":{"c":12345678901234567890123456.0000000001}' in text


def test_a_decimal_of_many_zeros_is_written_without_exponent(tmp_path: Path) -> None:
    rows = [Decimal("0E-10"), Decimal("0.0000000001")]
    _, text = read(tmp_path, pa.table({"c": pa.array(rows, pa.decimal128(38, 10))}))
    assert '"minValues":{"c":0.0000000000}' in text


def test_structs_are_nested_and_lists_and_maps_left_out(tmp_path: Path) -> None:
    rows = [
        {"s": {"a": 1, "b": {"c": "x"}}, "l": [1, 2], "m": {"k": 1}, "z": 5},
        {"s": None, "l": None, "m": None, "z": 6},
    ]
    schema = pa.schema(
        {
            "s": pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))]),
            "l": pa.list_(pa.int64()),
            "m": pa.map_(pa.string(), pa.int64()),
            "z": pa.int64(),
        }
    )
    stats, _ = read(tmp_path, pa.Table.from_pylist(rows, schema=schema))
    assert stats["minValues"] == {"s": {"a": 1, "b": {"c": "x"}}, "z": 5}
    assert stats["maxValues"] == {"s": {"a": 1, "b": {"c": "x"}}, "z": 6}
    assert stats["nullCount"] == {"s": {"a": 1, "b": {"c": 1}}, "z": 0}


def test_only_the_first_32_leaves_have_statistics_and_all_columns_null_counts(tmp_path: Path) -> None:
    table = pa.table({f"c{number}": [None, number] for number in range(40)})
    pq.write_table(table, tmp_path / "f.parquet")
    file = read_file(tmp_path, "f.parquet")
    assert list(json.loads(file.stats)["nullCount"]) == [f"c{number}" for number in range(32)]
    assert file.nulls == {f"c{number}": 1 for number in range(40)}


def test_a_file_without_statistics_claims_nothing(tmp_path: Path) -> None:
    stats, _ = read(tmp_path, pa.table({"c": [1, 2]}), write_statistics=False)
    assert stats == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {}}


def test_instants_that_python_cannot_hold_are_left_out(tmp_path: Path) -> None:
    far = [-(10**17), 0, 3 * 10**17]
    table = pa.table(
        {"t": pa.array(far, pa.timestamp("us", tz="UTC")), "d": pa.array([-800000, 0, 3000000], pa.date32())}
    )
    stats, _ = read(tmp_path, table)
    assert (stats["minValues"], stats["maxValues"]) == ({}, {})


def test_nanoseconds_are_left_out(tmp_path: Path) -> None:
    stats, _ = read(tmp_path, pa.table({"t": pa.array([1, 2], pa.timestamp("ns"))}))
    assert (stats["minValues"], stats["nullCount"]) == ({}, {"t": 0})


def test_types_of_parquet_files_are_returned_as_delta_types(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([1], pa.int32()), "t": pa.array([0], pa.timestamp("us", tz="UTC")), "l": [[1.5]]})
    pq.write_table(table, tmp_path / "f.parquet")
    file = read_file(tmp_path, "f.parquet")
    assert (file.types["a"], file.types["t"], file.types["l"]["elementType"]) == ("integer", "timestamp", "double")
    assert (file.path, file.rows, file.size) == ("f.parquet", 1, (tmp_path / "f.parquet").stat().st_size)


@given(st.dates(), st.integers(0, 86_399_999_999))
def test_instants_are_written_with_microseconds(day: date, micros: int) -> None:
    from waterclock.storage.slices.statistics import _instant

    instant = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(microseconds=micros)
    assert _instant((instant - EPOCH) // timedelta(microseconds=1), "Z") == _iso(instant) + "Z"


def test_columns_that_rows_are_sorted_by_have_bounds_beyond_the_32nd_leaf(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(40)]
    table = pa.table({name: pa.array([1, 2]) for name in names} | {"s": pa.array([{"a": 3, "b": 4}, None])})
    pq.write_table(table, tmp_path / "f.parquet")
    usual = json.loads(read_file(tmp_path, "f.parquet").stats)
    more = json.loads(read_file(tmp_path, "f.parquet", also=["C38", "s", "not there"]).stats)
    assert list(usual["minValues"]) == names[:32]
    assert more["minValues"] == usual["minValues"] | {"c38": 1, "s": {"a": 3, "b": 4}}
    assert more["nullCount"] == usual["nullCount"] | {"c38": 0, "s": {"a": 1, "b": 1}}
