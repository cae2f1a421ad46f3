"""Spark's types for the records of an API: each type, nested values, and values that do not fit."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.apis import Space, collector, in_pages
from tests.systems import unit_of
from waterclock.connectors.column_matching import CollectedColumn, SourceColumn
from waterclock.connectors.interface import WindowRequest
from waterclock.connectors.rest import frames
from waterclock.errors import WaterclockError
from waterclock.testing.connectors import declared, hours

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DAY = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.fixture
def space() -> Space:
    return Space()


def test_values_are_of_the_types_that_are_declared_and_text_where_none_is(
    spark: SparkSession, space: Space, tmp_path: Path
) -> None:
    record = {
        "whole": 12345678901234567,
        "quoted": "42",
        "exact": 0.1,
        "yes": True,
        "at": "2013-01-01T05:00:00+02:00",
        "epoch": 1357016400,
        "day": "2013-01-01",
        "deep": {"a": {"b": [1, 2]}, "c": "x"},
        "list": [{"k": 1}, {"k": 2}],
        "open": {"z": [1, {"y": None}]},
        "plain": 1.50,
        "Größe 1": "é\nline",
        "free": {"any": [1, "two"]},
    }
    space.set(rows=[record, {"whole": None}])
    columns = declared(
        ("whole", "BIGINT"),
        ("quoted", "INT"),
        ("exact", "DECIMAL(10,4)"),
        ("yes", "BOOLEAN"),
        ("at", "TIMESTAMP"),
        ("epoch", "TIMESTAMP"),
        ("day", "DATE"),
        ("deep", "STRUCT<a: STRUCT<b: ARRAY<INT>>, c: STRING>"),
        ("list", "ARRAY<STRUCT<k: INT>>"),
        ("free", "VARIANT"),
    )
    made = collector(space.setting(tmp_path))
    unit = unit_of("api", "offset", **in_pages("offset", 5, epoch="seconds"))
    read = made.read_snapshot(spark, unit, columns, "UTC")
    frame = read.frame.selectExpr("*", "to_json(free) AS free_text").drop("free")
    first = next(row.asDict(recursive=True) for row in frame.collect() if row["whole"] is not None)
    assert json.loads(first.pop("open")) == record["open"], "as the source wrote it"
    assert first == {
        "whole": 12345678901234567,
        "quoted": 42,
        "exact": Decimal("0.1000"),
        "yes": True,
        "at": datetime(2013, 1, 1, 3),  # noqa: DTZ001 (PySpark gives local times)
        "epoch": datetime(2013, 1, 1, 5),  # noqa: DTZ001
        "day": datetime(2013, 1, 1).date(),  # noqa: DTZ001
        "deep": {"a": {"b": [1, 2]}, "c": "x"},
        "list": [{"k": 1}, {"k": 2}],
        "plain": "1.5",
        "Größe_1": "é\nline",
        "free_text": '{"any":[1,"two"]}',
    }
    assert set(read.source_columns) == set(record)


def test_no_digit_of_a_number_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "page-000001-0.ndjson.gz"
    record = '{"money": 12345678901234567.89, "many": 123456789012345678901234567890, "text": 1.10, "in": [0.10]}\n'
    path.write_bytes(gzip.compress(record.encode()))
    kinds = {"money": "DECIMAL(20,2)", "many": "DECIMAL(38,0)", "text": "STRING", "in": "STRING"}
    taken = [CollectedColumn(name, name, kind, is_typed=True) for name, kind in kinds.items()]
    frame = frames.frame_of(spark, [str(path)], [SourceColumn(name) for name in kinds], taken, "UTC", "")
    assert [tuple(map(str, row)) for row in frame.collect()] == [
        ("12345678901234567.89", "123456789012345678901234567890", "1.10", "[0.10]")
    ]


@pytest.mark.parametrize(
    ("wrong", "kind", "told"),
    [
        ({"n": "seven"}, ("n", "INT"), "n is 'seven', which does not fit its type"),
        ({"n": 7.125}, ("n", "DECIMAL(10,2)"), "n is '7.125', which does not fit its type"),
        ({"n": [7.125]}, ("n", "ARRAY<DECIMAL(10,2)>"), "which does not fit its type"),
        ({"n": "yesterday"}, ("n", "TIMESTAMP"), "with the declared types"),
        ({"n": [1, 2]}, ("n", "STRUCT<a: INT>"), "with the declared types"),
    ],
)
def test_a_record_that_does_not_fit_its_type_is_reported_by_page_and_number(
    spark: SparkSession, space: Space, tmp_path: Path, wrong: Any, kind: tuple[str, str], told: str
) -> None:
    space.set(rows=[{"n": None}, {"n": None}, {"n": None}, wrong])
    made = collector(space.setting(tmp_path))
    unit = unit_of("api", "page", **in_pages("page", 2))
    columns = declared(kind)
    read = made.read_snapshot(spark, unit, columns, "UTC")
    with pytest.raises(Exception) as caught:  # noqa: PT011 (Spark's error)
        read.frame.collect()
    error = made.explain(unit, columns, caught.value)
    assert error is not None
    assert (error.code, error.transient) == ("E846", False)
    assert "page 2" in error.what
    assert told in str(error.why)
    if kind[1] == "INT":
        assert "record 2 of it" in error.what


def test_windows_contain_only_their_own_rows_though_the_api_includes_both_bounds(
    spark: SparkSession, space: Space, tmp_path: Path
) -> None:
    times = [DAY + timedelta(minutes=30 * at) for at in range(9)]
    space.set(rows=[{"id": str(at), "at": f"{time:%Y-%m-%dT%H:%M:%SZ}"} for at, time in enumerate(times)])
    made = collector(space.setting(tmp_path))
    unit = unit_of("api", "page", **in_pages("page", 2, since="since", until="until"))
    read = made.read_windows(spark, unit, WindowRequest("at", hours(0, 3)), declared(("at", "TIMESTAMP")), "UTC")
    rows = {row["id"]: row["timelabel"] for row in read.frame.collect()}
    labels = [window.label for window in hours(0, 3)]
    assert rows == {str(at): labels[at // 2] for at in range(6)}
    assert [one["params"]["since"] for one in space.asked if one["params"]["page"] == "1"] == [
        "2013-01-01T00:00:00Z",
        "2013-01-01T01:00:00Z",
        "2013-01-01T02:00:00Z",
    ]
    assert read.source["rows"] == 9
    read.close()
    assert all((tmp_path / "storage" / "archive" / folder / "closed.json").exists() for folder in read.source["kept"])


def test_times_in_milliseconds_decide_the_window(spark: SparkSession, space: Space, tmp_path: Path) -> None:
    space.set(rows=[{"id": "a", "ms": int((DAY + timedelta(minutes=90)).timestamp() * 1000)}])
    made = collector(space.setting(tmp_path))
    unit = unit_of("api", "all", epoch="milliseconds")
    read = made.read_windows(spark, unit, WindowRequest("ms", hours(0, 3)), declared(("ms", "BIGINT")), "UTC")
    assert [(row["id"], row["timelabel"]) for row in read.frame.collect()] == [("a", "20130101010000")]


def test_a_column_that_records_leave_out_is_null_once_it_was_seen(
    spark: SparkSession, space: Space, tmp_path: Path
) -> None:
    columns = declared(("id", None), ("note", None), is_open=False)
    made, unit = collector(space.setting(tmp_path)), unit_of("api", "all")
    space.set(rows=[{"id": "a"}])
    with pytest.raises(WaterclockError) as caught:
        made.read_snapshot(spark, unit, columns, "UTC")
    assert caught.value.code == "E805"
    for rows in ([{"id": "a", "note": "n"}], [{"id": "b"}]):
        space.set(rows=rows)
        read = made.read_snapshot(spark, unit, columns, "UTC")
        read.close()
    assert [row.asDict() for row in read.frame.collect()] == [{"id": "b", "note": None}]


def test_the_clock_is_that_of_the_server_even_if_it_is_wrong(space: Space, tmp_path: Path) -> None:
    space.set(rows=[{"id": "a"}], skew=-86_400.0 * 400)
    made = collector(space.setting(tmp_path))
    clock = made.clock(unit_of("api", "all"))
    assert clock is not None
    assert timedelta(days=399) < datetime.now(UTC) - clock < timedelta(days=401)
    assert space.asked == []
    assert collector(space.setting(tmp_path, clock="machine")).clock(unit_of("api", "all")) is None


def test_the_pages_that_are_kept_are_as_the_source_wrote_them(
    space: Space, spark: SparkSession, tmp_path: Path
) -> None:
    import gzip

    space.set(rows=[{"id": "a", "n": 1.10}])
    made = collector(space.setting(tmp_path))
    made.read_snapshot(spark, unit_of("api", "all"), declared(), "UTC")
    [page] = (tmp_path / "storage").rglob("page-*.ndjson.gz")
    assert json.loads(gzip.decompress(page.read_bytes())) == {"id": "a", "n": 1.1}
