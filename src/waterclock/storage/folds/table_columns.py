"""Returns the columns of a table: derived from the rows of its batches, or from its declaration before the first batch.

Readers of a table that has no state yet need them: a query, PREVIOUS(own), a read of a skipped label.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.storage.folds.versions import table_schema_of
from waterclock.storage.slices.read import find_table_schema
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from waterclock.flow.declarations import Table


def state_schema(rows: StructType, table: Table) -> StructType:
    """Return the columns of a table whose batches have the columns `rows`. TEMPORAL adds the columns of versions."""
    from pyspark.sql.types import StructType

    if table.temporal is None:
        return rows
    return StructType.fromJson(json.loads(table_schema_of(rows.json(), table.temporal)))


def empty_schema(folder: str, table: Table) -> StructType:
    """Return the columns of a table that has no state: its columns on disk, else the declared ones that have types.

    Needs a Spark session, which parses the declared types. Raises E705 if the table has no batch yet and no column has
    a declared type.
    """
    return find_table_schema(folder) or state_schema(_parse_declared_columns(table), table)


def written_schema(folder: str, table: Table) -> StructType:
    """Return the columns of the rows that batches write to a table, if none of its slices can be read.

    They are the table's own columns. The raw rows of a TEMPORAL table are known only from its declaration. Needs a
    Spark session, and raises the same errors as `empty_schema`.
    """
    return empty_schema(folder, table) if table.temporal is None else _parse_declared_columns(table)


def _unknown_columns_fix(table: Table) -> str:
    """Return the fix for unknown columns. A table of late rows has no declaration of its own."""
    if table.late_rows is not None:
        return "`waterclock run` first: the first batch takes the columns of its inputs"
    return f"declare the columns of {table.name} with their types: {table.name} (id BIGINT KEY, …)"


def _parse_declared_columns(table: Table) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    declared = [column for column in table.columns.named if column.type]
    if not declared:
        raise WaterclockError(
            "E705",
            f"{table.name} has no columns yet",
            where=table.name,
            why="it is read before its first batch, and its declaration gives no types",
            fix=_unknown_columns_fix(table),
        )
    parsed = StructType.fromDDL(", ".join(f"`{column.name}` {column.type}" for column in declared))
    fields = StructType.fromJson(json.loads(parsed.json())).fields
    return StructType([StructField(TIMELABEL, StringType()), *fields])
