"""Scans a MariaDB or MySQL database for windows with changed rows (CHANGED BY)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from waterclock.connectors.mysql.dialect import quote_identifier, source_of
from waterclock.connectors.mysql.extract import format_bound, micros, within
from waterclock.connectors.mysql.statements import run_statement
from waterclock.connectors.mysql.types import MysqlColumn
from waterclock.connectors.sql.changed_minutes import ChangedIn, MinuteAggregation, Row
from waterclock.connectors.sql.changed_windows import no_time_of_change
from waterclock.connectors.sql.window_bounds import WindowFilter
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.mysql.statements import Connection


def count_minutes(connection: Connection, unit: Unit, scan: ChangedIn, asked: MinuteAggregation) -> Iterator[Row]:
    """Run an aggregation of changed rows on the server, and yield its rows."""
    by_window, change, times = scan.by_window, scan.change, scan.times
    name, changed, own = quote_identifier(change.time_column), micros(change), micros(by_window)
    above = " + ".join(f"COALESCE({changed} >= {limit}, 0)" for limit in asked.limits) or "0"
    condition = f"{within(by_window, times)} AND {own} IS NOT NULL"
    if asked.since is not None:
        # an invalid date sorts before all others, and counts as a missing time
        low = format_bound(asked.since, change, times)
        condition += f" AND ({name} >= {low} OR {name} IS NULL OR {changed} IS NULL)"
    yield from run_statement(
        connection,
        f"SELECT {minute_of(own, asked.step)} AS minute, {above} AS above,"
        f" COUNT({changed}), SUM({changed}), COUNT(*) - COUNT({changed}),"
        f" COALESCE(MAX(CASE WHEN {changed} <= {asked.clock} THEN {changed} END), MAX({changed}))"
        f" FROM {source_of(unit)} WHERE {condition} GROUP BY minute, above",
    ).rows


def minute_of(time: str, step: int) -> str:
    """Return the SQL that rounds a time (SQL) down to its minute. `step` is a minute in the unit of the time."""
    return f"{time} - ({time} % {step} + {step}) % {step}"


def change_filter(column: MysqlColumn, unit: Unit) -> WindowFilter:
    """Return the column of CHANGED BY with the kind of its times. Raises  E827 if it has no times."""
    if column.time_kind is None:
        raise no_time_of_change(column.name, f"is of type {column.kind}", unit)
    return WindowFilter(column.name, column.time_kind, ())
