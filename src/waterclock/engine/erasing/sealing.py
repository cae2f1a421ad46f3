"""Seals slices of a table again without rows of persons, in the table's current columns."""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.engine.erasing.request import ErasureRequest
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.user_functions import register_functions
from waterclock.flow.declarations import Table
from waterclock.storage.folds.fold import add_ordering_columns
from waterclock.storage.folds.slices_without_rows import FoundRows, seal_without_rows
from waterclock.storage.folds.table_columns import written_schema
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.schema_types import schema_text, widen_schema
from waterclock.storage.slices.manifest import Manifest


def seal_slices(
    work: RunContext,
    request: ErasureRequest,
    table: Table,
    slices: Sequence[tuple[Manifest, FoundRows]],
    claim: int,
) -> list[Manifest]:
    """Seal slices of a table again under a claim, without the rows that were found in them."""
    folder, spark = work.folder(table), work.sessions.own()
    register_functions(spark, work.root, work.flow, table.expressions, work.keys)
    otherwise = schema_text(written_schema(folder, table)) if table_exists(folder) else ""
    return seal_without_rows(
        spark,
        folder,
        slices,
        claim,
        table.fold,
        request.persons(table.name),
        complete=lambda schema: add_ordering_columns(widen_schema(schema, otherwise or schema) or schema, table),
        sort_by=table.file_order,
    )
