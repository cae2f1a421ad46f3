"""Computes a column with a RETIRE day until that day, and sets it to NULL in later labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

from waterclock.batches.records import Slice
from waterclock.batches.schema_compatibility import past_retirement_error, retirement_of
from waterclock.batches.schemas import Side, newest_of
from waterclock.dpl.query.column_readers import readers_of
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Columns, Table
from waterclock.flow.retired_columns import Ending
from waterclock.spark_sql import quote_name, sql_text
from waterclock.storage.schema_types import sql_type
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def leave_out_early_windows(
    work: RunContext, table: Table, frame: DataFrame, labels: Sequence[datetime], again: Sequence[Slice]
) -> tuple[DataFrame, tuple[Slice, ...]]:
    """Leave out past windows of a LOOKBACK whose slices have a retired column that the new rows do not have.

    Such a window keeps its slice, and is reported. Return the remaining rows and past windows. `labels` are the group's
    own. Rows are filtered only if a window is left out.
    """
    if not again:
        return frame, ()
    there = {name.lower() for name in frame.columns}
    ends = {name: at for name, at in _list_ended_columns(work, table, max(labels)).items() if name not in there}
    for column in table.columns.named:
        name = column.name.lower()
        if column.ending is not None and column.ending.made_as is not None:
            ends.pop(name, None)
        elif column.ending is not None and name not in there:
            ends[name] = column.ending.at(table.cadence.zone)
    gone = {name: at for name, at in ends.items() if at <= min(labels)}
    early = [label_of(piece.label) for piece in again if any(piece.label < at for at in gone.values())]
    if not early:
        return frame, tuple(again)
    work.report_once(
        f"{table.name}: late rows of {', '.join(early)} are not collected: the source no longer has "
        f"{', '.join(sorted(gone))}, which these windows contain"
    )
    others = tuple(piece for piece in again if label_of(piece.label) not in early)
    return frame.where(~F.col(TIMELABEL).isin(early)), others


def add_retiring_columns(
    work: RunContext,
    table: Table,
    rows: tuple[DataFrame, Columns],
    labels: Sequence[datetime],
    known: StructType | None,
    now: datetime,
) -> tuple[DataFrame, Columns]:
    """Add retiring columns to rows: computed as declared, and NULL from their day on. Return the rows and all columns.

    `known` is the table's schema. A retired column that is no longer declared stays in the table as NULL. Raises E773
    if a retiring column is missing from rows before its day, E452 if its day has come at `now` and no batch announced
    it.
    """
    frame, columns = rows
    stored = {field.name.lower(): field for field in (known.fields if known else ()) if field.name != TIMELABEL}
    ending = [column for column in table.columns.named if column.ending is not None]
    for column in ending:
        if refused := past_retirement_error(table, column, work.schemas_of(table.name), now):
            raise refused
    over_by_now = _list_ended_columns(work, table, max(labels)) if stored else {}
    if not ending and not over_by_now:
        return rows
    there = {name.lower(): name for name in frame.columns}
    values: dict[str, str] = {}
    for column in ending:
        name = column.name.lower()
        kind = column.type or (sql_type(stored[name].dataType.jsonValue()) if name in stored else "STRING")
        values[column.name] = _value_sql(work, table, column, there.get(name), labels, kind)
    declared = {column.name.lower() for column in table.columns.named}
    over = [stored[name] for name in over_by_now if name in stored and name not in there and name not in declared]
    values |= {field.name: f"CAST(NULL AS {sql_type(field.dataType.jsonValue())})" for field in over}
    if not values:
        return rows  # retired columns may still be in the rows
    made = {name.lower() for name in values}
    others = [quote_name(name) for name in frame.columns if name.lower() not in made]
    frame = frame.selectExpr(*others, *(f"{value} AS {quote_name(name)}" for name, value in values.items()))
    kept = () if columns.is_open else tuple(Column(field.name, table.place) for field in over)
    return frame, replace(columns, named=(*columns.named, *kept))


def _value_sql(
    work: RunContext, table: Table, column: Column, source: str | None, labels: Sequence[datetime], kind: str
) -> str:
    """Write the SQL for the value of a retiring column in each row."""
    ends = column.ending
    if ends is None:
        raise AssertionError(f"{column.name} does not end")
    # rows that still contain the column keep its value, even if other rows of the batch do not contain it
    found = [quote_name(source or "")] * (source is not None) + [f"({ends.made_as})"] * (ends.made_as is not None)
    value = f"coalesce({', '.join(found)})" if found else None
    at = ends.at(table.cadence.zone)
    if max(labels) < at or _is_read(work, table, column, ends):
        if value is None:
            raise _early_end_error(table, column, min(labels))
        return value
    null = f"CAST(NULL AS {kind})"
    if min(labels) >= at:
        return null
    if value is None:
        raise _early_end_error(table, column, min(labels))
    return f"if({TIMELABEL} >= {sql_text(label_of(at))}, NULL, {value})"


def _is_read(work: RunContext, table: Table, column: Column, ends: Ending) -> bool:
    readers = readers_of(work.flow, table.name, column.name)
    if readers:
        work.report_once(
            f"{table.name}.{column.name} does not retire on {ends.day}: it is still read by "
            f"{', '.join(map(str, readers))}"
        )
    return bool(readers)


def _list_ended_columns(work: RunContext, table: Table, newest: datetime) -> dict[str, datetime]:
    """Map the columns that have retired by the label `newest` to their ends, by the table's newest schema version."""
    version = newest_of(work.schemas_of(table.name), Side.TABLE)
    found = {name: retirement_of(version.columns, name) for name in version.columns} if version else {}
    ends = {name.lower(): Ending(day).at(table.cadence.zone) for name, day in found.items() if day is not None}
    return {name: at for name, at in ends.items() if at <= newest}


def _early_end_error(table: Table, column: Column, label: datetime) -> WaterclockError:
    return WaterclockError(
        "E773",
        f"{table.name} is missing {column.name} before it retires: {column.ending}",
        where=f"{table.name}@{label_of(label)}",
        why="until that day the table keeps the column, and the rows have no value for it",
        fix=f"declare its expression: {column.name} … AS (the_new_column) {column.ending}",
    )
