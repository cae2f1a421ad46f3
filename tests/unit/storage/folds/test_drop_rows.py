"""A file without some of its rows: the remaining rows are unchanged, and its metadata stays true."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.storage.folds.drop_rows import can_copy_without_rows, copy_without_rows

FIRST, LAST = datetime(1500, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
NESTED = pa.struct([("x", pa.float64()), ("y", pa.list_(pa.string()))])


def write(root: Path, name: str, columns: dict[str, pa.Array], **options: Any) -> pa.Table:
    table = pa.table(columns)
    pq.write_table(table, root / name, store_schema=False, **options)
    return table


def left(root: Path) -> pa.Table:
    return pa.concat_tables(
        (pq.ParquetFile(path).read() for path in sorted((root / "new").glob("*.parquet"))), promote_options="default"
    )


def places(*numbers: int) -> pa.Array:
    return pa.array(numbers, pa.int64())


def of_all_types() -> dict[str, pa.Array]:
    return {
        "b": pa.array([True, None, False]),
        "i8": pa.array([1, None, -3], pa.int8()),
        "i64": pa.array([2**62, None, -3], pa.int64()),
        "f": pa.array([math.nan, -0.0, None], pa.float32()),
        "s": pa.array(["", None, "é" * 40]),
        "raw": pa.array([b"\xff\x00", None, b""]),
        "d": pa.array([date(1, 1, 1), None, date(9999, 12, 31)]),
        "t": pa.array([FIRST, None, LAST], pa.timestamp("us", "UTC")),
        "n": pa.array([FIRST, None, LAST], pa.timestamp("us")),
        "m9": pa.array([Decimal("1.25"), None, Decimal("-0.01")], pa.decimal128(9, 2)),
        "m38": pa.array([Decimal("1e30"), None, Decimal(-1)], pa.decimal128(38, 2)),
        "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "st": pa.array([{"x": 1.5, "y": None}, None, {"x": None, "y": ["z"]}], NESTED),
    }  # fmt: skip


def test_remaining_rows_are_unchanged_in_every_type(tmp_path: Path) -> None:
    table = pa.table(of_all_types())
    with pq.ParquetWriter(
        tmp_path / "a.parquet", table.schema, store_schema=False, store_decimal_as_integer=True
    ) as writer:
        writer.add_key_value_metadata({"org.apache.spark.version": "4.2.0"})
        writer.write_table(table)
    assert can_copy_without_rows(tmp_path, ["a.parquet"])
    copy_without_rows(tmp_path, {"a.parquet": places(1)}, "new")
    copy = pq.ParquetFile(tmp_path / "new/kept-00000.parquet")
    assert repr(copy.read().to_pylist()) == repr(table.take([0, 2]).to_pylist())
    assert copy.schema.equals(pq.ParquetFile(tmp_path / "a.parquet").schema)
    assert copy.metadata.metadata[b"org.apache.spark.version"] == b"4.2.0"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.booleans(), max_size=40), min_size=1, max_size=5), st.integers(1, 7), st.randoms())
def test_exactly_the_rows_at_the_places_go(
    tmp_path_factory: Any, kept: list[list[bool]], group: int, dice: Any
) -> None:
    root = tmp_path_factory.mktemp("thin")
    gone: dict[str, pa.Array] = {}
    for number, rows in enumerate(kept):
        ids = [number * 100 + at for at in range(len(rows))]
        columns = {"id": pa.array(ids, pa.int64()), "name": pa.array([f"n{row}" for row in ids], pa.string())}
        write(root, f"{number}.parquet", columns, row_group_size=group, use_dictionary=dice.choice([["name"], False]))
        here = [at for at, stays in enumerate(rows) if not stays]
        dice.shuffle(here)
        gone[f"{number}.parquet"] = places(*here)
    copy_without_rows(root, gone, "new")
    expected = [number * 100 + at for number, rows in enumerate(kept) for at, stays in enumerate(rows) if stays]
    found = sorted((row["id"], row["name"]) for row in left(root).to_pylist()) if any((root / "new").iterdir()) else []
    assert found == [(row, f"n{row}") for row in expected]


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_no_value_of_a_row_that_is_left_out_stays_in_a_dictionary(tmp_path: Path, codec: str) -> None:
    """Also if the row is in another row group, or in another file of the copy."""
    names = pa.array(["ada.lovelace", "eva.crane", None, "eva.crane", "joe.new"] * 3)
    for name in ("a.parquet", "b.parquet"):
        write(tmp_path, name, {"name": names}, row_group_size=4, use_dictionary=["name"], compression=codec)
    gone = {"a.parquet": places(0, 5, 10), "b.parquet": places(0, 5, 10)}
    copy_without_rows(tmp_path, gone, "new", leaves_no_value=True)
    assert left(tmp_path).column("name").to_pylist() == ["eva.crane", None, "eva.crane", "joe.new"] * 6
    for path in (tmp_path / "new").iterdir():
        if codec == "none":
            assert b"eva.crane" in path.read_bytes()
        assert b"ada.lovelace" not in path.read_bytes()
        metadata = pq.read_metadata(path)
        for group in range(metadata.num_row_groups):
            assert metadata.row_group(group).column(0).statistics.min == "eva.crane"


def test_small_files_of_a_kind_are_joined_and_others_are_not(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path, f"{number}.parquet", {"id": pa.array([number, -1])})
    write(tmp_path, "other.parquet", {"id": pa.array([6, -1]), "more": pa.array(["x", "y"])})
    gone = {f"{name}.parquet": places(1) for name in (*range(6), "other")}
    copy_without_rows(tmp_path, gone, "new")
    files = sorted((tmp_path / "new").glob("*.parquet"))
    assert len(files) < len(gone)
    assert sorted(row["id"] for row in left(tmp_path).to_pylist()) == list(range(7))


def test_files_of_which_nothing_is_left_leave_none(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", {"id": pa.array([1, 2])})
    copy_without_rows(tmp_path, {"a.parquet": places(1, 0)}, "new")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("values", [[1.0, math.nan, 2.0], [math.nan]])
def test_bounds_are_not_written_where_nan_may_lie_beyond_them(tmp_path: Path, values: list[float]) -> None:
    pq.write_table(
        pa.table({"x": [0.5, *values], "id": range(1 + len(values))}), tmp_path / "a.parquet", write_statistics=["id"]
    )
    copy_without_rows(tmp_path, {"a.parquet": places(0)}, "new")
    group = pq.read_metadata(tmp_path / "new/kept-00000.parquet").row_group(0)
    assert group.column(0).statistics is None
    assert group.column(1).statistics.max == len(values)


def test_bounds_of_fractions_are_written_where_they_were_known(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", {"x": pa.array([0.5, 9.0, 2.5])})
    copy_without_rows(tmp_path, {"a.parquet": places(1)}, "new")
    known = pq.read_metadata(tmp_path / "new/kept-00000.parquet").row_group(0).column(0).statistics
    assert (known.min, known.max) == (0.5, 2.5)


def test_old_timestamps_and_mixed_codecs_are_refused(tmp_path: Path) -> None:
    write(
        tmp_path,
        "old.parquet",
        {"t": pa.array([LAST], pa.timestamp("us"))},
        use_deprecated_int96_timestamps=True,
    )
    write(tmp_path, "mixed.parquet", {"a": pa.array([1]), "b": pa.array([1])}, compression={"a": "snappy", "b": "zstd"})
    assert not can_copy_without_rows(tmp_path, ["old.parquet"])
    assert not can_copy_without_rows(tmp_path, ["mixed.parquet"])


def test_the_codec_and_the_dictionary_encodings_are_kept(tmp_path: Path) -> None:
    write(
        tmp_path,
        "a.parquet",
        {"id": pa.array([1, 1]), "name": pa.array(["x", "x"])},
        compression="zstd",
        use_dictionary=["name"],
    )
    copy_without_rows(tmp_path, {"a.parquet": places(0)}, "new")
    group = pq.read_metadata(tmp_path / "new/kept-00000.parquet").row_group(0)
    assert {group.column(0).compression, group.column(1).compression} == {"ZSTD"}
    assert "RLE_DICTIONARY" in group.column(1).encodings
    assert "RLE_DICTIONARY" not in group.column(0).encodings
