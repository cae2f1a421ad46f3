"""Finds the schema of a table: the current one, and the one after a batch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.flow.merge_settings import RECORD
from waterclock.storage.folds.table_columns import state_schema
from waterclock.storage.folds.versions import known_raw_schema, require_fit
from waterclock.storage.schema_types import sql_type
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import find_table_schema
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def find_known_columns(work: RunContext, table: Table) -> StructType | None:
    """Return the schema of the table's existing rows. None before its first row."""
    folder = work.folder(table)
    known = None if table.kind is Kind.PUBLISH else find_table_schema(folder)
    if known is None or table.temporal is None:
        return known
    newest = _newest_readable(work, table)
    if newest is None:
        return None
    return _parse_schema(known_raw_schema(newest, known.json(), table.temporal))


def _newest_readable(work: RunContext, table: Table) -> Manifest | None:
    """Return the manifest of the newest slice whose manifest is readable, or None."""
    newest = work.ledger.reads.newest(table.name)
    while newest is not None and newest.slice_path:
        try:
            return read_manifest(work.folder(table), newest.slice_path)
        except WaterclockError:
            newest = next(reversed(work.ledger.reads.slices(table.name, BEGINNING, newest.label)), None)
    return None


def absent_columns_of(table: Table, folder: str, rows: StructType) -> dict[str, str]:
    """Map the columns of a MERGE or TEMPORAL table that `rows` do not have, in lower case, to their SQL types.

    Such a column keeps its older values, and rules of these rows see NULL.
    """
    if not table.is_fold or table.kind is Kind.PUBLISH:
        return {}
    known = find_table_schema(folder)
    there = {TIMELABEL, *RECORD, *(field.name.lower() for field in rows.fields)}
    declared = {column.name.lower(): column.type or "STRING" for column in table.columns.named}
    stored = {field.name.lower(): sql_type(field.dataType.jsonValue()) for field in (known.fields if known else ())}
    return {name: kind for name, kind in (declared | stored).items() if name not in there}


def resolve_stored_columns(table: Table, rows: StructType) -> StructType:
    """Return the schema that the table stores, given the schema of a batch's rows.

    A TEMPORAL table adds columns for the validity period; all others store the columns unchanged.
    """
    if table.temporal is None:
        return rows
    require_fit(rows.json(), table.temporal, table=table.name)
    return state_schema(rows, table)


def _parse_schema(schema: str) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema))
