"""Says which columns a table has: made of rows that its batches bring, and before its first batch.

Whoever reads a table that has no state yet (a query, PREVIOUS(own), a reader of a label that was skipped) asks here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.storage.folds.versions import table_schema_of
from waterclock.storage.log.open_tables import has_columns
from waterclock.storage.slices.read import table_schema
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from waterclock.flow.declarations import Table


def state_schema(rows: StructType, table: Table) -> StructType:
    """Return the columns of a table whose batches bring rows with these: those of versions, where it keeps them."""
    from pyspark.sql.types import StructType

    if table.temporal is None:
        return rows
    return StructType.fromJson(json.loads(table_schema_of(rows.json(), table.temporal)))


def empty_schema(folder: str, table: Table) -> StructType:
    """Return the columns of a table that has no state: those it has on disk, else those that are declared with types.

    Needs a Spark session, which reads the declared types.
    Raises  E705 where the table has no batch yet and its columns have no declared types
    """
    return table_schema(folder) if has_columns(folder) else state_schema(_declared(table), table)


def brought_schema(folder: str, table: Table) -> StructType:
    """Return the columns of the rows that batches bring to a table no slice of which can be read.

    They are the table's own, but of one that keeps versions: its rows are known by what is declared alone. Needs and
    raises what `empty_schema` does.
    """
    return empty_schema(folder, table) if table.temporal is None else _declared(table)


def _how_to_know(table: Table) -> str:
    """Say what tells the columns of a table; those that are made beside another have no declaration of their own."""
    if table.late_rows is not None:
        return "`waterclock run` first: its first batch has the columns of what is read"
    return f"declare the columns of {table.name} with their types: {table.name} (id BIGINT KEY, …)"


def _declared(table: Table) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    declared = [column for column in table.columns.named if column.type]
    if not declared:
        raise WaterclockError(
            "E705",
            f"{table.name} has no columns yet",
            where=table.name,
            why="it is read before its first batch, and its declaration gives no types",
            fix=_how_to_know(table),
        )
    parsed = StructType.fromDDL(", ".join(f"`{column.name}` {column.type}" for column in declared))
    fields = StructType.fromJson(json.loads(parsed.json())).fields
    return StructType([StructField(TIMELABEL, StringType()), *fields])
