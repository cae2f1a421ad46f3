"""Builds the queries of a collect from a database server: for rows of windows, and for their changes.

A query uses bounds that contain all requested rows, so that the server can use an index. This process then determines
the window of each row by its time in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from waterclock.connectors.arrow_values import Times
from waterclock.connectors.sql.changed_minutes import MinuteAggregation, MinuteChangeScan
from waterclock.connectors.sql.collector import WINDOW_VALUE
from waterclock.connectors.sql.columns import ExpressionColumn, SqlExtract, SqlRequestedColumn
from waterclock.connectors.sql.dialect import SqlDialect
from waterclock.connectors.sql.window_bounds import WindowFilter, format_time_literal, local_bounds
from waterclock.flow.declarations import Unit
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import nominal_zone

_Database = TypeVar("_Database")
_Wanted = TypeVar("_Wanted", bound="RequestedExpression[Any]")
_Column = TypeVar("_Column", bound=ExpressionColumn)


@dataclass(frozen=True, slots=True)
class RequestedExpression(SqlRequestedColumn[_Column]):
    """A column to read by an SQL expression, with its description in the database."""

    @property
    def is_text(self) -> bool:
        """True if the column is read as text, because its declared type is a text type."""
        kind = self.taken.type.strip().lower()
        return kind == "string" or kind.startswith(("char", "varchar"))

    @property
    def sql(self) -> str:
        """The SQL expression that reads the column."""
        return self.column.text if self.is_text else self.column.expression


@dataclass(frozen=True, slots=True)
class PartialExtract(SqlExtract[_Database, _Wanted], Generic[_Database, _Wanted]):
    """A query for rows. `part` is an SQL condition that selects a part of them, and `most` limits their number."""

    part: str | None = None
    most: int | None = None

    def query(self, dialect: SqlDialect) -> str:
        """Return the query for the wanted columns, followed by the time column that determines the labels."""
        limit = f" {dialect.limit.format(self.most)}" if self.most else ""
        return (
            f"SELECT {', '.join(self.select_list(dialect)) or '1'} FROM {self.source}{self.where_sql(dialect)}{limit}"
        )

    def select_list(self, dialect: SqlDialect) -> list[str]:
        """Return the expressions after SELECT."""
        return [one.sql for one in self.wanted] + (
            [microseconds_sql(self.by_window, dialect)] if self.by_window else []
        )

    def where_sql(self, dialect: SqlDialect) -> str:
        """Return the WHERE clause; empty if all rows are requested."""
        conditions = [self.part] if self.part else []
        if self.by_window:
            conditions.append(window_condition(self.by_window, self.times, dialect))
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def microseconds_sql(by_window: WindowFilter, dialect: SqlDialect) -> str:
    """Return SQL for a row's time as a number: microseconds since 1970, or the column itself if it contains numbers.

    A time without a zone counts as UTC. An invalid date is NULL.
    """
    name = dialect.quote_identifier(by_window.time_column)
    return name if by_window.is_number else dialect.micros.format(name)


def window_condition(by_window: WindowFilter, times: Times, dialect: SqlDialect) -> str:
    """Return an SQL condition that matches all rows of the windows, and maybe more, and that an index can serve."""
    name, windows = dialect.quote_identifier(by_window.time_column), by_window.windows
    start, end = windows[0].start, windows[-1].end
    if by_window.is_local:
        low, high = (local_literal(at, dialect) for at in local_bounds(start, end, times.zone))
    else:
        low, high = (format_bound(at, by_window, times, dialect) for at in (start, end))
    return f"{name} >= {low} AND {name} < {high}"


def format_bound(at: datetime, of: WindowFilter, times: Times, dialect: SqlDialect) -> str:
    """Format an instant as an SQL literal of a column's type."""
    if of.is_number:
        return format_time_literal(at, of.kind, times)
    return local_literal(at.astimezone(nominal_zone(times.zone) if of.is_local else UTC), dialect)


def local_literal(at: datetime, dialect: SqlDialect) -> str:
    """Format a time as an SQL literal, without its zone."""
    return dialect.local.format(f"{at:%Y-%m-%d %H:%M:%S.%f}")


def fill_sign_query(query: str, window: Window, zone: str, literal: str) -> str:
    """Insert the start, end and label of a window into the query of AWAIT, which checks whether the source is complete.

    `literal` is the SQL format of a time. Times are in `zone`.
    """
    rules = nominal_zone(zone)
    literals = {
        name: literal.format(f"{at.astimezone(rules):%Y-%m-%d %H:%M:%S.%f}")
        for name, at in (("window_start", window.start), ("window_end", window.end))
    }
    return WINDOW_VALUE.sub(lambda found: literals.get(found[1], f"'{window.label}'"), query)


def minutes_query(unit: Unit, scan: MinuteChangeScan, aggregation: MinuteAggregation, dialect: SqlDialect) -> str:
    """Return the query that aggregates changed rows by the minute of their data time."""
    by_window, change, times = scan.by_window, scan.change, scan.times
    name, changed, own = (
        dialect.quote_identifier(change.time_column),
        microseconds_sql(change, dialect),
        microseconds_sql(by_window, dialect),
    )
    above = " + ".join(f"CASE WHEN {changed} >= {limit} THEN 1 ELSE 0 END" for limit in aggregation.limits) or "0"
    condition = f"{window_condition(by_window, times, dialect)} AND {own} IS NOT NULL"
    if aggregation.since is not None:
        # an invalid date sorts before all others, and counts as a missing time
        low = format_bound(aggregation.since, change, times, dialect)
        condition += f" AND ({name} >= {low} OR {name} IS NULL OR {changed} IS NULL)"
    return (
        f"SELECT {minute_of(own, aggregation.step, dialect.modulo)}, {above},"
        f" COUNT({changed}), {dialect.fingerprint.format(changed)}, COUNT(*) - COUNT({changed}),"
        f" COALESCE(MAX(CASE WHEN {changed} <= {aggregation.clock} THEN {changed} END), MAX({changed}))"
        f" FROM {dialect.source_of(unit)} WHERE {condition} GROUP BY 1, 2"
    )


def minute_of(time: str, step: int, modulo: str = "({} % {})") -> str:
    """Return SQL that rounds a time down to its minute; `step` is the length of a minute in the unit of the time.

    It uses remainders, as MariaDB and MySQL would round a quotient to four digits.
    """
    return f"{time} - {modulo.format(f'({modulo.format(time, step)} + {step})', step)}"
