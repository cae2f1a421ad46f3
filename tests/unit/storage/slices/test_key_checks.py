"""Keys of small slices are grouped in this process, as Spark would group them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from tests.slices import hour, rows_of, sealed
from waterclock.storage.slices.key_checks import duplicate_keys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK = cast("SparkSession", None)


def test_unique_keys_have_no_duplicates(tmp_path: Path) -> None:
    manifest = sealed(str(tmp_path), hour(0), 1, rows_of(1, 2, 3), files=2)
    assert duplicate_keys(NO_SPARK, str(tmp_path), manifest, ["id"]) == []


def test_duplicates_are_found_across_files_and_columns(tmp_path: Path) -> None:
    rows = [{"id": 1, "name": "a"}, {"id": 2, "name": "a"}, {"id": 1, "name": "b"}, {"id": 1, "name": "a"}]
    manifest = sealed(str(tmp_path), hour(0), 1, rows, files=4)
    assert duplicate_keys(NO_SPARK, str(tmp_path), manifest, ["id"]) == [(1,)]
    assert duplicate_keys(NO_SPARK, str(tmp_path), manifest, ["name", "id"]) == [("a", 1)]


def test_nulls_are_one_key(tmp_path: Path) -> None:
    manifest = sealed(str(tmp_path), hour(0), 1, [{"id": None, "name": "a"}, {"id": None, "name": "b"}])
    assert duplicate_keys(NO_SPARK, str(tmp_path), manifest, ["id"]) == [(None,)]


def test_at_most_the_given_number_of_duplicate_keys_is_returned(tmp_path: Path) -> None:
    manifest = sealed(str(tmp_path), hour(0), 1, [*rows_of(*range(9)), *rows_of(*range(9))])
    assert len(duplicate_keys(NO_SPARK, str(tmp_path), manifest, ["id"], most=3)) == 3


def test_decimals_of_one_value_are_one_key(tmp_path: Path) -> None:
    from decimal import Decimal

    schema = pa.schema([("timelabel", pa.string()), ("id", pa.decimal128(10, 2))])
    rows = [{"id": Decimal("1.00")}, {"id": Decimal(1)}]
    manifest = sealed(str(tmp_path), hour(0), 1, rows, schema=schema)
    assert duplicate_keys(NO_SPARK, str(tmp_path), manifest, ["id"]) == [(Decimal("1.00"),)]
