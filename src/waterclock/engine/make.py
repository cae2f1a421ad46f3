"""Makes the rows of a group, whatever its kind, in the shape its table declares. Runs no job of its own."""

from __future__ import annotations

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
from waterclock.flow import Kind, Mode, Table
from waterclock.ledger.records import Slice
from waterclock.planner import Group
from waterclock.storage import conform, table_exists, table_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    folder = work.folder(table)
    known = table_schema(folder) if table.kind is not Kind.PUBLISH and table_exists(folder) else None
    may_lack = table.mode is Mode.MERGE  # a change that does not carry a column keeps its older value
    if table.kind is Kind.COLLECT:
        gathered = gather(work, spark, table, group, bound.again, now)
        shaped = conform(gathered.collected.frame, table.columns, known, table=table.name, may_lack=may_lack)
        notes = Notes(
            gathered.source,
            gathered.collected.set_aside,
            (*shaped.left_out, *gathered.collected.left_out),
            gathered.after,
        )
        return Made(shaped.frame, shaped.schema, notes)
    columns = table.columns
    if table.kind is Kind.PUBLISH:
        # what is not listed is left out already; what marks the rows that go is of no list
        columns = replace(columns, is_open=True)
        frame = publish_frame(work, spark, table, group, bound.pins)
        source = {batch.label: {"is_whole": True} for batch in group.batches if is_whole(work, table)}
    else:
        source = {}
        frame = transform_frame(work, spark, table, group.batches, bound.pins)
    shaped = conform(frame, columns, known, table=table.name, may_lack=may_lack)
    return Made(shaped.frame, shaped.schema, Notes(source, left_out=shaped.left_out))
