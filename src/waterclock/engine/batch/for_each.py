"""Collects rows from a source that is queried FOR EACH row of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from waterclock.connectors.interface import EachCollector, EachRequest
from waterclock.engine.collect.collect_result import CollectResult
from waterclock.engine.reads.pin import PinnedRead, frame_of
from waterclock.engine.run_context import RunContext
from waterclock.flow.checks import columns_to_request
from waterclock.flow.declarations import Table
from waterclock.planner.plan import RECOLLECT, Group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def collect_for_each(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    group: Group,
    pins: Mapping[datetime, Sequence[PinnedRead]],
) -> CollectResult:
    """Query the source for each row of the table that FOR EACH names, in the group's windows.

    Queries that an earlier batch made are not repeated, unless a user recollects the label.
    """
    each, source = table.each, table.source
    if each is None or source is None:
        raise AssertionError(f"{table.name} has no FOR EACH, so it is requested for no rows")
    unit = work.connections.resolve_unit(source.unit)
    collector = work.connections.collector(unit.connection)
    if not isinstance(collector, EachCollector):
        raise AssertionError(f"{unit} is not asked for each row of a table, which check refuses")  # noqa: TRY004
    request = EachRequest(
        table.name,
        work.lake.location(table.name).removeprefix("tables/").replace("/", "."),  # a renamed table keeps its responses
        each.parameters,
        {batch.window: _read_table_rows(work, spark, pins[batch.label]) for batch in group.batches},
        done=frozenset(batch.label for batch in group.batches if batch.is_revision),
        is_anew=group.verb == RECOLLECT,
    )
    collected = collector.read_each(spark, unit, request, columns_to_request(table), table.cadence.zone)
    return CollectResult(collected, {batch.label: dict(collected.source) for batch in group.batches})


def _read_table_rows(work: RunContext, spark: SparkSession, pinned: Sequence[PinnedRead]) -> DataFrame:
    frames = [frame_of(spark, work.lake, work.flow, each) for each in pinned]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
