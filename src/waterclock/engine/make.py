"""Makes the rows of a group, whatever its kind, in the shape its table declares. Runs no job of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.engine.changes import is_whole
from waterclock.engine.collect import gather
from waterclock.engine.made import Made, Notes
from waterclock.engine.publish import publish_frame
from waterclock.engine.reads import PinnedRead
from waterclock.engine.transform import transform_frame
from waterclock.engine.workplace import Workplace
from waterclock.flow import Column, Kind, Table
from waterclock.ledger.records import Slice
from waterclock.planner import Group
from waterclock.storage import (
    conform,
    raw_known,
    read_manifest,
    require_fit,
    table_exists,
    table_schema,
    table_schema_of,
)
from waterclock.storage.timelines import MISSING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Bound:
    """What a group is bound to: the pinned reads of each label, and the done slices whose windows are read again."""

    pins: Mapping[datetime, tuple[PinnedRead, ...]]
    again: tuple[Slice, ...] = ()


def make(
    work: Workplace,
    spark: SparkSession,
    table: Table,
    group: Group,
    bound: Bound,
    now: datetime,
) -> Made:
    """Give the rows of every label to make, declared columns and types applied, and the schema they have."""
    known = _known(work, table)
    may_lack = table.is_fold  # a change that does not carry a column keeps its older value
    if table.kind is Kind.COLLECT:
        gathered = gather(work, spark, table, group, bound.again, now)
        shaped = conform(gathered.collected.frame, table.columns, known, table=table.name, may_lack=may_lack)
        notes = Notes(
            gathered.source,
            gathered.collected.set_aside,
            (*shaped.left_out, *gathered.collected.left_out),
            gathered.after,
        )
        return Made(shaped.frame, _stored(table, shaped.schema), notes)
    columns = table.columns
    if table.kind is Kind.PUBLISH:
        # what is not listed is left out already; what marks the rows that go is of no list
        columns = replace(columns, is_open=True)
        frame = publish_frame(work, spark, table, group, bound.pins)
        source = {batch.label: {"is_whole": True} for batch in group.batches if is_whole(work, table)}
    else:
        source = {}
        frame = transform_frame(work, spark, table, group.batches, bound.pins)
        if MISSING in frame.columns and not columns.is_open:
            columns = replace(columns, named=(*columns.named, Column(MISSING, table.place)))
    shaped = conform(frame, columns, known, table=table.name, may_lack=may_lack)
    return Made(shaped.frame, _stored(table, shaped.schema), Notes(source, left_out=shaped.left_out))


def _known(work: Workplace, table: Table) -> StructType | None:
    """Give the columns that the table's rows have so far, None before its first."""
    folder = work.folder(table)
    if table.kind is Kind.PUBLISH or not table_exists(folder):
        return None
    if table.temporal is None:
        return table_schema(folder)
    newest = work.ledger.newest(table.name)
    if newest is None or not newest.slice_path:
        return None
    text = raw_known(read_manifest(folder, newest.slice_path), table_schema(folder).json(), table.temporal)
    return _parsed(text)


def _stored(table: Table, rows: StructType) -> StructType:
    """Give the table's columns, by those of the rows that batches bring."""
    if table.temporal is None:
        return rows
    require_fit(rows.json(), table.temporal, table=table.name)
    return _parsed(table_schema_of(rows.json(), table.temporal))


def _parsed(schema: str) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema))
