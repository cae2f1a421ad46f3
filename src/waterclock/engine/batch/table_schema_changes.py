"""Finds out whether a batch changes the schema of its table, and returns the new schema version to record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.batches.schema_compatibility import KEY, NOT_NULL, RETIRE, broken_promises, retirement_of
from waterclock.batches.schemas import Side, find_matching_version, newest_of
from waterclock.engine.run_context import RunContext
from waterclock.flow.column_types import text_of_type, type_of_json
from waterclock.flow.declarations import Table
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def find_new_schema(
    work: RunContext, table: Table, stored: StructType | None, made: StructType, label: datetime
) -> dict[datetime, dict[str, Any]]:
    """Map `label` to the table's columns after its batch. Empty if that schema is recorded already.

    `stored` is the table's schema, `made` that of the batch. Raises E772 if it breaks COMPATIBLE.
    """
    if _find_new_columns(work, table, stored, made, label) is None:
        return {}
    work.forget_schemas(table.name)  # a batch may have recorded these columns since
    columns = _find_new_columns(work, table, stored, made, label)
    if columns is None:
        return {}
    broken = broken_promises(table, columns, work.schemas_of(table.name), "E772")
    if broken:
        raise broken[0][1]
    return {label: {str(Side.TABLE): columns}}


def _find_new_columns(
    work: RunContext, table: Table, stored: StructType | None, made: StructType, label: datetime
) -> dict[str, str] | None:
    """Return the table's columns after a batch, or None if a known schema version already has them."""
    versions = work.schemas_of(table.name)
    before = newest_of(versions, Side.TABLE)
    columns = resulting_columns(table, stored, made, before.columns if before else {})
    return columns if find_matching_version(versions, Side.TABLE, label, columns) is None else None


def resulting_columns(
    table: Table, stored: StructType | None, made: StructType, before: Mapping[str, str]
) -> dict[str, str]:
    """Return a table's columns, with their constraints, once it contains rows of the schema `made`.

    A retired column that is no longer declared keeps the retirement day of the version `before`.
    """
    declared = {column.name.lower(): column for column in table.columns.named}
    keys = {name.lower() for name in table.keys}
    columns: dict[str, str] = {}
    for schema in (stored, made):
        for field in json.loads(schema.json())["fields"] if schema is not None else ():
            name = field["name"]
            if name == TIMELABEL or name.lower() in {known.lower() for known in columns}:
                continue
            column = declared.get(name.lower())
            constraint = KEY if name.lower() in keys else NOT_NULL if column and column.is_not_null else ""
            day = column.ending and column.ending.day if column else retirement_of(before, name)
            ends = f"{RETIRE}{day}" if day else ""
            columns[name] = text_of_type(type_of_json(field["type"])) + constraint + ends
    return columns
