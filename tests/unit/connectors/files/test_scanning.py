"""The SQL by which a column of files becomes its declared type."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from waterclock.connectors.column_matching import Taken
from waterclock.connectors.files import scanning
from waterclock.connectors.files.raw_rows import RawRows
from waterclock.connectors.files.reading_options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_FRAME = cast("DataFrame", None)


def sql_of(found: str, declared: str, zone: str = "UTC") -> str:
    raw = RawRows(NO_FRAME, {"x": "x"}, {"x": found}, {})
    return scanning._as_type(raw, Taken("x", "x", declared, is_typed=True), zone, ReadOptions())


@pytest.mark.parametrize("found", ["double", "DOUBLE", "float", "decimal(10,2)", "DECIMAL(10,2)"])
@pytest.mark.parametrize("declared", ["INT", "bigint", "SMALLINT"])
def test_a_whole_number_of_a_file_is_compared_with_the_number_there(found: str, declared: str) -> None:
    assert sql_of(found, declared).startswith(f"coalesce(CASE WHEN try_cast(`x` AS {declared}) = `x` THEN")


@pytest.mark.parametrize("found", ["int", "INT", "tinyint"])
def test_a_whole_number_is_cast_to_another(found: str) -> None:
    assert sql_of(found, "BIGINT") == "CAST(`x` AS BIGINT)"


@pytest.mark.parametrize("found", ["date", "DATE", "timestamp_ntz", "TIMESTAMP_NTZ"])
def test_a_time_without_a_zone_is_of_the_tables_zone(found: str) -> None:
    assert sql_of(found, "TIMESTAMP", "Europe/Berlin") == "to_utc_timestamp(CAST(`x` AS TIMESTAMP), 'Europe/Berlin')"
