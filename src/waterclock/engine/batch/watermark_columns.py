"""Checks that the rows from which a watermark is computed have its time column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow.choices import ReadKind
from waterclock.flow.declarations import Table
from waterclock.flow.watermarks import Watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def require_time(table: Table, said: Watermark, frames: Mapping[Any, DataFrame]) -> None:
    """Raise an error for rows without the columns of a watermark, or whose time is no TIMESTAMP. Raises  E715."""
    read, rows = next((read, frame) for read, frame in frames.items() if read.kind is ReadKind.PLAIN)
    types = {field.name.lower(): field.dataType.simpleString() for field in rows.schema.fields}
    absent = [name for name in (said.column, *said.per) if name.lower() not in types]
    found = types.get(said.column.lower())
    if not absent and found == "timestamp":
        return
    what = f"{read.table} has no column {absent[0]}" if absent else f"{said.column} of {read.table} is {found}"
    near = did_you_mean(absent[0], rows.columns) if absent else None
    raise WaterclockError(
        "E715",
        what if absent else f"{what}, not TIMESTAMP",
        where=str(table.place),
        why=f"WATERMARK measures the progress of {read.table} by {said.column}",
        fix=near or f"declare {said.column} TIMESTAMP in the columns of {read.table}, then `waterclock rebuild --all`",
    )
