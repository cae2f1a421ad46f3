"""Scans a PostgreSQL database for windows with changed rows (CHANGED BY)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from waterclock.connectors.postgres.dialect import quote_identifier, source_of
from waterclock.connectors.postgres.extract import TIMES, microseconds_sql, window_condition
from waterclock.connectors.postgres.types import PostgresColumn
from waterclock.connectors.sql.changed_minutes import ChangedMinute, MinuteAggregation, MinuteChangeScan
from waterclock.connectors.sql.changed_windows import change_time_error
from waterclock.connectors.sql.window_bounds import WindowFilter, format_time_literal
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection


def count_minutes(
    connection: Connection, unit: Unit, scan: MinuteChangeScan, aggregation: MinuteAggregation
) -> Iterator[ChangedMinute]:
    """Run the query that counts changed rows by minute on the server, and yield its rows."""
    by_window, change, times = scan.by_window, scan.change, scan.times
    name, changed = quote_identifier(change.time_column), microseconds_sql(change)
    if not change.is_number:
        changed = f"CASE WHEN isfinite({name}) THEN {changed} END"
    limits = f"ARRAY{list(aggregation.limits)}::bigint[]"
    above = f"coalesce(width_bucket({changed}, {limits}), 0)" if aggregation.limits else "0"
    condition = window_condition(by_window, times)
    if aggregation.since is not None:
        condition += f" AND ({name} >= {format_time_literal(aggregation.since, change.kind, times)} OR {name} IS NULL)"
    yield from connection.execute(
        f"SELECT floor({microseconds_sql(by_window)}::numeric / {aggregation.step})::bigint * {aggregation.step},"
        f" {above},"
        f" count({changed}), sum({changed}::numeric), count(*) - count({changed}),"
        f" coalesce(max({changed}) FILTER (WHERE {changed} <= {aggregation.clock}), max({changed}))"
        f" FROM {source_of(unit)} WHERE {condition} GROUP BY 1, 2"
    )


def change_filter(column: PostgresColumn, unit: Unit) -> WindowFilter:
    """Return the filter for the column of CHANGED BY. Raises E827 if its type is not a time."""
    if column.type_name not in TIMES:
        raise change_time_error(column.name, f"is of type {column.type_name}", unit)
    return WindowFilter(column.name, column.kind, ())
