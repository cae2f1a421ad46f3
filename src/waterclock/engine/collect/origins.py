"""Adds the columns with the origin of collected rows, such as `file AS (_source.file)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.flow.changes import IN_ROWS as CHANGE_IN_ROWS
from waterclock.flow.changes import TYPES as CHANGE_TYPES
from waterclock.flow.changes import format_change_mark
from waterclock.flow.declarations import Table
from waterclock.flow.origins import IN_ROWS, TYPES
from waterclock.spark_sql import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_ORIGIN_COLUMNS = {what: (IN_ROWS[what], kind) for what, kind in TYPES.items()} | {
    format_change_mark(what): (CHANGE_IN_ROWS[what], kind) for what, kind in CHANGE_TYPES.items()
}


def add_origins(table: Table, frame: DataFrame) -> DataFrame:
    """Add the columns with the origin of rows, and hidden copies of them for quarantined rows.

    Stored rows have these columns already. A column is NULL if neither the rows nor the source have a value for it.
    """
    there = {name.lower(): name for name in frame.columns}
    values: dict[str, str] = {}
    for column in table.columns.named:
        if column.metadata_field is None:
            continue
        in_rows, type_name = _ORIGIN_COLUMNS[column.metadata_field]
        if in_rows in frame.columns:
            kept = f", {quote_name(there[column.name.lower()])}" if column.name.lower() in there else ""
            values[column.name] = f"coalesce({quote_name(in_rows)}{kept})"
        elif column.name.lower() in there:
            values[in_rows] = f"CAST({quote_name(there[column.name.lower()])} AS {type_name})"
        else:
            values[column.name] = f"CAST(NULL AS {type_name})"
    if not values:
        return frame
    made = {name.lower() for name in values}
    others = [quote_name(name) for name in frame.columns if name.lower() not in made]
    return frame.selectExpr(*others, *(f"{value} AS {quote_name(name)}" for name, value in values.items()))
