"""Adds a table's HIDDEN columns to DataFrames: rows older than their declaration do not have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from waterclock.flow.changes import TYPES as OF_CHANGES
from waterclock.flow.changes import format_change_mark
from waterclock.flow.declarations import Column, Table
from waterclock.flow.origins import TYPES as OF_SOURCES
from waterclock.spark_sql import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def add_hidden_columns(rows: DataFrame, table: Table) -> DataFrame:
    """Add missing HIDDEN columns of a table as NULL, so that a query can exclude them by name. Cost: no job."""
    if not table.hidden_columns:
        return rows
    there = {name.lower() for name in rows.columns}
    lacking = [
        each for each in table.columns.named if each.name in table.hidden_columns and each.name.lower() not in there
    ]
    casts = (f"CAST(NULL AS {_column_type(column)}) AS {quote_name(column.name)}" for column in lacking)
    return rows.selectExpr("*", *casts) if lacking else rows


def drop_columns(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return rows without the given columns. If there are none, the same DataFrame is returned."""
    return rows.drop(*columns) if columns else rows


def _column_type(column: Column) -> str:
    types = {**OF_SOURCES, **{format_change_mark(what): kind for what, kind in OF_CHANGES.items()}}
    return column.type or types.get(column.metadata_field or "", "STRING")
