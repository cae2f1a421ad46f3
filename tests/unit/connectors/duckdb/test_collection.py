"""Rows of a DuckDB database are read as Arrow with the declared types."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests.systems import unit_of
from waterclock.connectors.arrow_values import Times
from waterclock.connectors.column_matching import CollectedColumn
from waterclock.connectors.duckdb.collection import DuckdbExtract, DuckdbRequestedColumn, batches
from waterclock.connectors.duckdb.database import DuckdbDatabase
from waterclock.connectors.duckdb.types import columns_of
from waterclock.errors import WaterclockError


def read(folder: Path, query: str) -> list[object]:
    database = DuckdbDatabase(str(folder / "db"), may_create=True)
    with database.open_for_writing("db.t") as connection:
        connection.execute(f"CREATE TABLE t AS {query}")
    with database.open_for_reading("db.t") as connection:
        (column,) = columns_of(connection, unit_of("db", "t"))
        taken = CollectedColumn(column.name, column.name, column.spark or "STRING", is_typed=False)
        extract = DuckdbExtract(database, "db.t", '"t"', (DuckdbRequestedColumn(taken, column),), Times())
        return [row[column.name] for batch in batches(connection, extract) for row in batch.to_pylist()]


def test_dates_of_the_calendar_are_read(tmp_path: Path) -> None:
    days = read(tmp_path, "SELECT unnest([DATE '0001-01-01', NULL, DATE '9999-12-31']) AS day")
    assert days == [date.min, None, date.max]


@pytest.mark.parametrize("day", ["infinity", "-infinity", "10000-01-01", "0044-03-15 (BC)"])
def test_a_date_outside_of_the_calendar_is_refused(tmp_path: Path, day: str) -> None:
    with pytest.raises(WaterclockError, match="day holds") as refused:
        read(tmp_path, f"SELECT unnest([DATE '2013-01-01', DATE '{day}']) AS day")
    assert refused.value.code == "E812"
