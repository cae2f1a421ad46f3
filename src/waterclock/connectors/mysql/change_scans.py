"""Scans a MariaDB or MySQL database for windows with changed rows (CHANGED BY)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from waterclock.connectors.mysql import database
from waterclock.connectors.mysql.database import quote_identifier, source_of
from waterclock.connectors.mysql.extract import format_bound, micros, within
from waterclock.connectors.mysql.types import MysqlColumn
from waterclock.connectors.sql.changed_minutes import ChangedIn, MinuteAggregation, Row
from waterclock.connectors.sql.changed_rows import Bounds, Tallies, change_column_of, no_time_of_change
from waterclock.connectors.sql.window_bounds import WindowFilter
from waterclock.connectors.values import Times
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.mysql.database import Connection


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
    name, changed, own = quote_identifier(change.time_column), micros(change), micros(by_window)
    above = " + ".join(f"COALESCE({changed} >= {limit}, 0)" for limit in asked.limits) or "0"
    condition = f"{within(by_window, times)} AND {own} IS NOT NULL"
    if asked.since is not None:
        # an invalid date sorts before all others, and counts as a missing time
        low = format_bound(asked.since, change, times)
        condition += f" AND ({name} >= {low} OR {name} IS NULL OR {changed} IS NULL)"
    yield from database.run_statement(
        connection,
        f"SELECT FLOOR({own} / {asked.step}) * {asked.step} AS minute, {above} AS above,"
        f" COUNT({changed}), SUM({changed}), COUNT(*) - COUNT({changed}),"
        f" COALESCE(MAX(CASE WHEN {changed} <= {asked.clock} THEN {changed} END), MAX({changed}))"
        f" FROM {source_of(unit)} WHERE {condition} GROUP BY minute, above",
    ).rows


def find_change_column(name: str, there: Sequence[MysqlColumn], unit: Unit) -> WindowFilter:
    """Return the column of CHANGED BY with its type.

    Raises  E827 if it does not exist or is not a time
    """
    spelt = change_column_of(name, [column.name for column in there], unit)
    column = next(column for column in there if column.name == spelt)
    if column.time_kind is None:
        raise no_time_of_change(spelt, f"is of type {column.kind}", unit)
    return WindowFilter(spelt, column.time_kind, ())
