"""Measures how much log sources retain for tables BY CHANGES, after each round of a run, and records changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from waterclock.batches.log_retention import RetainedLog, is_followed, limit_of, parse_retained_log
from waterclock.connectors.change_collector import LogRetentionReporter
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.ledger.read.source_events import SEEN, SourceEvent

APART = 60.0
"""The minimum number of seconds between two measurements of one runner."""
_MAX_AGE = timedelta(hours=1)
_SMALL = 16 << 20  # bytes: a segment of a log


def watch_logs(work: RunContext) -> None:
    """Query how many bytes of log each source retains for tables, at most once a minute, and record changes.

    A measurement is recorded if its state has changed, if it has doubled or halved, or if none was recorded for an
    hour. A source that does not answer is skipped, and its last measurement is kept. A failure here does not fail the
    run.
    """
    followed = [table for table in work.flow.tables.values() if is_followed(table)]
    if not followed or not work.is_time_for("logs that are kept", APART):
        return
    try:
        _record_retained_logs(work, followed)
    except WaterclockError as error:  # the ledger is locked, or unavailable
        work.report_once(f"the size of the logs that sources keep was not recorded: {error.what}")


def _record_retained_logs(work: RunContext, followed: Sequence[Table]) -> None:
    past, now = work.ledger.past, work.real_now()
    gone = [record.name for record in work.ledger.reads.tables() if record.name not in work.flow.tables]
    collected = [name for name, table in work.flow.tables.items() if table.source is not None]
    kept = past.kept_for_tables([*collected, *gone])
    newest = {str(entry["table"]): name for name, entry in kept.items()}  # the next batch removes older ones
    seen = past.read_retained_states(sorted(newest))
    for connection in dict.fromkeys(table.source.unit.connection for table in followed if table.source):
        of_it = {name: table for table, name in newest.items() if kept[name]["connection"] == connection}
        for name, found in _query_retained_logs(work, followed, connection, sorted(of_it)).items():
            table = of_it[name]
            if is_new(work.flow.tables.get(table), name, seen.get(table), found, now):
                past.add_event(SEEN, who=work.settings.who, table=table, run=work.run, data=found.to_entry(name))


def _query_retained_logs(
    work: RunContext, followed: Sequence[Table], connection: str, names: Sequence[str]
) -> Mapping[str, RetainedLog]:
    unit = next(table.source.unit for table in followed if table.source and is_followed(table, connection))
    try:
        collector: Any = work.connections.collector(connection)
        return (
            collector.find_retained_logs(unit, names) if names and isinstance(collector, LogRetentionReporter) else {}
        )
    except WaterclockError:
        return {}


def is_new(table: Table | None, name: str, seen: SourceEvent | None, kept: RetainedLog, now: datetime) -> bool:
    """Return whether a measurement differs enough from the last one (`seen`) to be recorded. Pure function."""
    if seen is None or seen.data["name"] != name or now - seen.at >= _MAX_AGE:
        return True
    before = parse_retained_log(seen.data)
    was_over, is_over = (each.held > limit_of(table, each.most) for each in (before, kept))
    if before.condition is not kept.condition or was_over != is_over:
        return True
    low, high = sorted((before.held, kept.held))
    return high > 2 * low and high - low > _SMALL
