"""Reads the rows of collects: by data time, by arrival, by changes, or from a snapshot of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from waterclock.batches.records import Slice
from waterclock.connectors.as_of_collector import AsOfCollector
from waterclock.connectors.change_collector import ChangeCollector
from waterclock.connectors.interface import (
    ArrivalCollector,
    Collector,
    Item,
    ItemReader,
    PositionCollector,
    SnapshotCollector,
    TextSource,
    WindowCollector,
    WindowRequest,
)
from waterclock.connectors.unsealed_collector import UnsealedCollector
from waterclock.engine.collect.arrivals import assign_items
from waterclock.engine.collect.await_signals import require_signs
from waterclock.engine.collect.changes import collect_changes
from waterclock.engine.collect.collect_result import CollectResult
from waterclock.engine.collect.lookback import find_arrival_slack, windows_read
from waterclock.engine.collect.positions import Owned, range_to_dict
from waterclock.engine.collect.reread import reread_labels
from waterclock.engine.collect.source_clocks import filter_arrived
from waterclock.engine.run_context import RunContext
from waterclock.flow.checks import columns_to_request, loose_types
from waterclock.flow.declarations import Table, Unit
from waterclock.flow.enums import Batching
from waterclock.planner.plan import Group
from waterclock.spark_sql import quote_name
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_source_windows(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    group: Group,
    again: Sequence[Slice],
    now: datetime,
    owned: Owned | None = None,
) -> CollectResult:
    """Read the group's windows from the table's source. The rows are evaluated later, unless the source is small.

    `again` are done windows that LOOKBACK reads again. `owned` maps labels to their ranges of a log (see `positions`),
    or open windows to their items so far.
    """
    result = _read_by_batching(work, spark, table, group, again, now, owned)
    for note in result.collected.notes:
        work.report_once(f"{table.name}: {note}")
    return replace(result, collected=replace(result.collected, values=_text_parsers(work, table)))


def _text_parsers(work: RunContext, table: Table) -> dict[str, str]:
    """Map typed columns to the SQL with which the source parses their text, if an invalid value quarantines its row."""
    loose = loose_types(table)
    if table.source is None or not loose:
        return {}
    unit = work.connections.resolve_unit(table.source.unit)
    collector = work.connections.collector(unit.connection)
    if not isinstance(collector, TextSource):
        return {}
    return {
        column.name.lower(): collector.value_of_text(unit, quote_name(column.name), column.type, table.cadence.zone)
        for column in table.columns.named
        if column.type and column.name.lower() in loose
    }


def _read_by_batching(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    group: Group,
    again: Sequence[Slice],
    now: datetime,
    owned: Owned | None,
) -> CollectResult:
    source = table.source
    if source is None:
        raise AssertionError(f"{table.name} collects from nowhere, which check refuses")
    unit = work.connections.resolve_unit(source.unit)
    collector = work.connections.collector(unit.connection)
    if group.is_made_of_kept:
        return reread_labels(work, spark, table, group, unit, collector)
    require_signs(work, table, (batch.window for batch in group.batches))
    if source.batching is Batching.ARRIVAL_TIME and isinstance(collector, ArrivalCollector):
        windows = [batch.window for batch in group.batches]
        arrived = AssignedArrivals(owned) if owned else assign_arrivals(work, table, windows, now, unit, collector)
        return _read_arrivals(spark, table, arrived, unit, collector)
    if source.batching is Batching.ARRIVAL_TIME and isinstance(collector, PositionCollector):
        return _read_ranges(spark, table, group, owned or {}, unit, collector)
    if source.batching is Batching.DATA_TIME and isinstance(collector, WindowCollector):
        return _read_windows(work, spark, table, group, again, unit, collector)
    if source.batching is Batching.CHANGES and isinstance(collector, ChangeCollector):
        return collect_changes(work, spark, table, group, unit, collector)
    return _read_whole(work, spark, table, group, now, unit, collector)


def explain_source_error(work: RunContext, table: Table, error: BaseException) -> BaseException:
    """Return the connector's explanation of an error raised while rows were evaluated, or else the error itself."""
    if table.source is None:
        return error
    unit = work.connections.resolve_unit(table.source.unit)
    collector: Collector = work.connections.collector(unit.connection)
    return collector.explain(unit, columns_to_request(table), error) or error


def _read_windows(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    group: Group,
    again: Sequence[Slice],
    unit: Unit,
    collector: WindowCollector,
) -> CollectResult:
    windows, time = windows_read(group, again), None if table.source is None else table.source.time_column
    request = WindowRequest(time or "", windows, slack=find_arrival_slack(work.ledger, table, group, again))
    collected = collector.read_windows(spark, unit, request, columns_to_request(table), table.cadence.zone)
    noted = {window.start: _rename_items(collected.source) for window in windows}
    return CollectResult(collected, noted)


def _read_whole(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    group: Group,
    now: datetime,
    unit: Unit,
    collector: Collector,
) -> CollectResult:
    """Read all rows of a source: its current ones, or those as of the end of each window."""
    batching = None if table.source is None else table.source.batching
    if batching is Batching.SNAPSHOT and isinstance(collector, SnapshotCollector):
        return _read_snapshot(spark, table, group, now, unit, collector)
    if batching is Batching.AS_OF and isinstance(collector, AsOfCollector):
        return _read_states(work, spark, table, group, unit, collector)
    raise AssertionError(f"{unit} cannot be collected by {batching}, which check refuses")


def _read_snapshot(
    spark: SparkSession, table: Table, group: Group, now: datetime, unit: Unit, collector: SnapshotCollector
) -> CollectResult:
    collected = collector.read_snapshot(spark, unit, columns_to_request(table), table.cadence.zone, now=now)
    stands_from = group.batches[-1].stands_from
    noted = {**_rename_items(collected.source), "looked_at": now.isoformat()}
    if stands_from is not None:
        noted["stands_from"] = stands_from.isoformat()
    return CollectResult(collected, {batch.label: noted for batch in group.batches})


def _read_states(
    work: RunContext, spark: SparkSession, table: Table, group: Group, unit: Unit, collector: AsOfCollector
) -> CollectResult:
    windows = [batch.window for batch in group.batches]
    collected = collector.read_states(spark, unit, windows, columns_to_request(table), _find_last_read(work, table))
    return CollectResult(collected, {window.start: dict(collected.source) for window in windows})


def _find_last_read(work: RunContext, table: Table) -> Mapping[str, Any] | None:
    """Return the source notes of the newest label; None before the first one, and for one that was not read."""
    newest = work.ledger.reads.newest(table.name)
    noted = [] if newest is None else work.ledger.reads.source_notes(table.name, newest.label, newest.end, most=1)
    return noted[0][1] if noted else None


@dataclass(frozen=True, slots=True)
class AssignedArrivals:
    """Arrived items by label, and collected ones that are not archived, as their runner died before it could do so."""

    by_label: Owned
    left_behind: Sequence[Item] = ()


def assign_arrivals(
    work: RunContext,
    table: Table,
    windows: Sequence[Window],
    now: datetime,
    unit: Unit,
    collector: ArrivalCollector,
    *,
    is_open: bool = False,
) -> AssignedArrivals:
    """List a source, and assign the items that the table has not collected to windows. Skipped items are reported.

    `is_open`: the windows are not over, so data that is not in complete items yet is listed, too.
    """
    # an archive only grows, so only items that this table has not taken are considered
    collected = work.ledger.reads.list_collected_items(table.name)
    if is_open and isinstance(collector, UnsealedCollector):
        listing = collector.arrivals_so_far(unit, collected)
    else:
        listing = collector.arrivals(unit, collected)
    for report in listing.reports:
        work.report_once(f"{table.name}: {report.path} is skipped: {report.problem}; {report.detail}")
    present = filter_arrived(listing, now).items
    # This comes before the query of taken items: all items of a sealed window are recorded by then. So no two runners
    # take one late item (its rows would be duplicated before E414 could refuse it).
    sealed = work.ledger.reads.covered_windows(table.name)
    taken = work.ledger.reads.find_collected_items(table.name, [item.name for item in present])
    free = [item for item in present if item.name not in taken]
    by_label = assign_items(free, windows, sealed, others_open=_find_older_open_windows(work, table, windows))
    left_behind = [
        _as_collected(item, taken[item.name]) for item in present if item.name in taken and not item.is_archived
    ]
    return AssignedArrivals(by_label, left_behind)


def _read_arrivals(
    spark: SparkSession, table: Table, arrived: AssignedArrivals, unit: Unit, collector: ArrivalCollector
) -> CollectResult:
    by_label = arrived.by_label
    collected = collector.read_items(spark, unit, by_label, columns_to_request(table), table.cadence.zone)
    source = {
        label: {**collected.source, "items": [item_to_dict(item) for item in items]}
        for label, items in by_label.items()
    }
    to_archive = [*arrived.left_behind, *(item for items in by_label.values() for item in items)]
    return CollectResult(collected, source, partial(_archive, table, collector, unit, to_archive))


def _read_ranges(
    spark: SparkSession, table: Table, group: Group, owned: Owned, unit: Unit, collector: PositionCollector
) -> CollectResult:
    by_label = {batch.label: owned.get(batch.label, ()) for batch in group.batches}
    collected = collector.read_items(spark, unit, by_label, columns_to_request(table), table.cadence.zone)
    source = {
        label: {**collected.source, "items": [range_to_dict(item) for item in items]}
        for label, items in by_label.items()
    }
    taken = [item for items in by_label.values() for item in items]
    return CollectResult(collected, source, partial(_archive, table, collector, unit, taken))


def _find_older_open_windows(work: RunContext, table: Table, windows: Sequence[Window]) -> list[Window]:
    start = work.ledger.reads.table(table.name).start
    if start is None:
        return []
    gap = work.ledger.reads.covered_windows(table.name).first_gap(start, windows[0].start)
    return [] if gap is None else [table.cadence.window_of(gap[0])]


def item_to_dict(item: Item) -> dict[str, Any]:
    """Convert an arrived item to the dictionary that a manifest stores."""
    found = {"name": item.name, "size": item.size, "stamp": item.stamp.isoformat()}
    return found if item.changed is None else {**found, "changed": item.changed.isoformat()}


def _as_collected(item: Item, data: Mapping[str, Any]) -> Item:
    """Return an item with the size and modification time that it had when it was collected.

    The archive then reports a file that changed since.
    """
    if "changed" not in data:
        return item
    return replace(item, size=data["size"], changed=datetime.fromisoformat(data["changed"]))


def _rename_items(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a read's notes with `items` renamed to `read`: other labels may read the same items."""
    return {"read" if name == "items" else name: value for name, value in source.items()}


def _archive(table: Table, collector: ItemReader, unit: Unit, items: Sequence[Item], work: RunContext) -> None:
    """Move the taken items to the archive once their batch is recorded. After a crash, the next batch moves them."""
    for report in collector.archive(unit, items):
        work.report_once(f"{table.name}: {report.path}: {report.problem}; {report.detail}")
