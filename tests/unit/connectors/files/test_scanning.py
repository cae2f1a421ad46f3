"""The SQL that converts a column of files to its declared type."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from waterclock.connectors.column_matching import CollectedColumn
from waterclock.connectors.files import scanning
from waterclock.connectors.files.raw_rows import RawRows
from waterclock.connectors.files.reading_options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_FRAME = cast("DataFrame", None)


def sql_of(found: str, declared: str, zone: str = "UTC") -> str:
    raw = RawRows(NO_FRAME, {"x": "x"}, {"x": found}, {})
    return scanning._typed_sql(raw, CollectedColumn("x", "x", declared, is_typed=True), zone, ReadOptions())


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


@pytest.mark.parametrize(
    ("pattern", "sql"),
    [
        ("dd.MM.yyyy HH:mm", "to_utc_timestamp(try_to_timestamp(x, 'dd.MM.yyyy HH:mm'), 'Europe/Berlin')"),
        ("HH:mm'Z'", "to_utc_timestamp(try_to_timestamp(x, 'HH:mm\\'Z\\''), 'Europe/Berlin')"),
        ("HH:mmXXX", "try_to_timestamp(x, 'HH:mmXXX')"),
        (
            "HH:mm[:ss][' 'z]",
            (
                "coalesce(try_to_timestamp(x, 'HH:mm[:ss]\\' \\'z'), "
                "to_utc_timestamp(try_to_timestamp(x, 'HH:mm[:ss][\\' \\'z]'), 'Europe/Berlin'))"
            ),
        ),
    ],
)
def test_a_time_with_a_zone_of_its_own_is_not_moved_into_the_tables(pattern: str, sql: str) -> None:
    reading = ReadOptions(timestamp_format=pattern)
    assert scanning.value_of_text("x", "TIMESTAMP", "Europe/Berlin", reading) == sql


@pytest.mark.parametrize(
    ("declared", "sql"),
    [
        ("TIMESTAMP", "to_utc_timestamp(try_to_timestamp(`x`, 'HHmm'), 'UTC')"),
        ("DATE", "to_utc_timestamp(CAST(CAST(try_to_timestamp(`x`, 'ddMM') AS DATE) AS TIMESTAMP), 'UTC')"),
    ],
)
def test_the_window_of_a_text_is_that_of_its_columns_value(declared: str, sql: str) -> None:
    raw, reading = (
        RawRows(NO_FRAME, {"x": "x"}, {"x": "STRING"}, {}),
        ReadOptions(timestamp_format="HHmm", date_format="ddMM"),
    )
    taken = CollectedColumn("x", "x", declared, is_typed=True)
    assert scanning._data_time_sql(raw, "x", taken, "UTC", reading) == sql
    assert "try_cast(`x` AS TIMESTAMP)" in scanning._data_time_sql(raw, "x", None, "UTC", reading)
