"""Selects the rows of a sealed label that its rules check, and measures them again if the write could not.

A MERGE delivery also contains rows of other kinds: rows to delete at the destination, and rows of older labels that
become visible again. Their rules were checked when they were first delivered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from waterclock.engine.batch.expectations import UNCHECKED, row_measures
from waterclock.engine.batch.measuring import measure_columns
from waterclock.engine.batch.publish_changes import deleted_column_of
from waterclock.engine.batch.table_schema import absent_columns_of
from waterclock.flow.checks import asks_rows
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode
from waterclock.spark_sql import quote_name
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.row_filter import ROW_LABEL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_COUNT = "_waterclock_count"


def measures_to_write(
    table: Table, schema: StructType, *, at_rest: bool, absent: Mapping[str, str]
) -> Sequence[tuple[str, Column]]:
    """Return the aggregates to compute while a label is written: for its rules, measures and unchecked rows."""
    from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

    found = [*row_measures(table, at_rest=at_rest, absent=absent), *measure_columns(table, schema, absent)]
    unchecked = _unchecked_condition(table, schema.names)
    return [*found, (UNCHECKED, F.expr(f"count_if({unchecked})"))] if unchecked else found


def measure_again(
    spark: SparkSession, table: Table, folder: str, manifest: Manifest, measures: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the measures of those rows of a sealed label that its rules check.

    `measures` were computed while the label was written, and are returned unchanged if they are exact. They are not if
    the label has unchecked rows, or if a task ran twice. Then one scan of the label computes them again.
    """
    if manifest.digest is not None and not measures.get(UNCHECKED):
        return measures
    rows = checked_rows(spark, table, folder, manifest)
    columns = [*row_measures(table, at_rest=True), *measure_columns(table, rows.schema)]
    if not columns:
        return measures
    from pyspark.sql import functions as F  # noqa: N812

    found = rows.agg(F.count(F.lit(1)).alias(_COUNT), *(column.alias(name) for name, column in columns)).first()
    own = found.asDict() if found else {}
    return own | {UNCHECKED: manifest.rows - own.pop(_COUNT)} if own else measures


def checked_rows(spark: SparkSession, table: Table, folder: str, manifest: Manifest) -> DataFrame:
    """Return the rows of a sealed label that its rules check. Columns that they do not have are NULL. Starts no job."""
    rows = frame_of_slices(spark, folder, [manifest])
    if absent := absent_columns_of(table, folder, rows.schema) if table.is_fold else {}:
        rows = rows.selectExpr("*", *(f"CAST(NULL AS {kind}) AS {quote_name(name)}" for name, kind in absent.items()))
    unchecked = _unchecked_condition(table, fields_of(manifest.schema))
    return rows.where(f"NOT ({unchecked})") if unchecked else rows


def _unchecked_condition(table: Table, columns: Collection[str]) -> str:
    """Return SQL that is TRUE for rows of a delivery that its rules do not check. Empty if they check all rows."""
    if table.kind is not Kind.PUBLISH or table.mode is not Mode.MERGE:
        return ""
    if not (asks_rows(table) or table.measures or table.is_profiled):
        return ""
    if table.is_delivered_by_label:
        return f"{ROW_LABEL} IS NOT NULL" if ROW_LABEL in columns else ""
    return quote_name(deleted_column_of(columns))
