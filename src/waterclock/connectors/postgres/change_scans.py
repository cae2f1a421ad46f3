"""Scans a PostgreSQL database for windows with changed rows (CHANGED BY)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from waterclock.connectors.postgres.database import quote_identifier, source_of
from waterclock.connectors.postgres.extract import TIMES, micros, within
from waterclock.connectors.postgres.types import PostgresColumn
from waterclock.connectors.sql.changed_minutes import ChangedIn, MinuteAggregation, Row
from waterclock.connectors.sql.changed_rows import Bounds, Tallies, change_column_of, no_time_of_change
from waterclock.connectors.sql.window_bounds import WindowFilter, format_time_literal
from waterclock.connectors.values import Times
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection


def build_tally_function(
    connection: Connection, unit: Unit, by_window: WindowFilter, change: WindowFilter, times: Times
) -> Callable[[Bounds], Tallies]:
    """Return a function that tallies the rows of each window at or above its bound."""
    return ChangedIn(by_window, change, times, partial(_rows, connection, unit, by_window, change, times)).tally


def _rows(
    connection: Connection,
    unit: Unit,
    by_window: WindowFilter,
    change: WindowFilter,
    times: Times,
    asked: MinuteAggregation,
) -> Iterator[Row]:
    name, changed = quote_identifier(change.time_column), micros(change)
    if not change.is_number:
        changed = f"CASE WHEN isfinite({name}) THEN {changed} END"
    limits = f"ARRAY{list(asked.limits)}::bigint[]"
    above = f"coalesce(width_bucket({changed}, {limits}), 0)" if asked.limits else "0"
    condition = within(by_window, times)
    if asked.since is not None:
        condition += f" AND ({name} >= {format_time_literal(asked.since, change.kind, times)} OR {name} IS NULL)"
    yield from connection.execute(
        f"SELECT floor({micros(by_window)}::numeric / {asked.step})::bigint * {asked.step}, {above},"
        f" count({changed}), sum({changed}::numeric), count(*) - count({changed}),"
        f" coalesce(max({changed}) FILTER (WHERE {changed} <= {asked.clock}), max({changed}))"
        f" FROM {source_of(unit)} WHERE {condition} GROUP BY 1, 2"
    )


def find_change_column(name: str, there: Sequence[PostgresColumn], unit: Unit) -> WindowFilter:
    """Return the column of CHANGED BY with its type.

    Raises  E827 if it does not exist or is not a time
    """
    spelt = change_column_of(name, [column.name for column in there], unit)
    column = next(column for column in there if column.name == spelt)
    if column.is_array or column.kind not in TIMES:
        raise no_time_of_change(spelt, f"is of type {column.kind}{'[]' if column.is_array else ''}", unit)
    return WindowFilter(spelt, column.kind, ())
