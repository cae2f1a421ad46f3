"""Finds how far the done batches of a collect are behind the end of its log, when a tick has read that end."""

from __future__ import annotations

from dataclasses import replace

from waterclock.connectors.interface import Positions
from waterclock.connectors.unsealed_collector import RecordTimes
from waterclock.engine.collect.positions import OpenRanges, find_oldest_pending_range
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Table
from waterclock.flow.open_windows import open_table_of
from waterclock.storage.commit.log_lag import LogLag, read_log_lag, record_log_lag, summarize_lag


def update_log_lag(work: RunContext, table: Table, ranges: OpenRanges) -> None:
    """Record the lag of a collect with its open windows if it has changed.

    Cost: a ledger query; after a change, a request for the times of at most twenty partitions, and a small file.
    """
    if ranges.newest is None:
        return
    folder = work.lake.folder(open_table_of(table.name))
    known = read_log_lag(folder)
    found = summarize_lag(_pending_positions(work, table, ranges.newest).parts)
    if found is not None and (known is None or found != _without_times(known)):
        record_log_lag(folder, _with_times(work, table, found))


def _pending_positions(work: RunContext, table: Table, newest: Positions) -> Positions:
    """Return the range from the end of the done batches to the end of the log."""
    oldest = find_oldest_pending_range(work, table)
    if oldest is None or oldest.of != newest.of:
        return newest
    parts = {part: (oldest.parts.get(part, span)[0], span[1]) for part, span in newest.parts.items()}
    return replace(newest, parts=parts)


def _without_times(lag: LogLag) -> LogLag:
    return replace(lag, worst=tuple(replace(each, newest=None) for each in lag.worst))


def _with_times(work: RunContext, table: Table, lag: LogLag) -> LogLag:
    if table.source is None:
        return lag
    unit = work.connections.resolve_unit(table.source.unit)
    collector = work.connections.collector(unit.connection)
    if not isinstance(collector, RecordTimes):
        return lag
    times = collector.newest_times(unit, [each.partition for each in lag.worst])
    return replace(lag, worst=tuple(replace(each, newest=times.get(each.partition)) for each in lag.worst))
