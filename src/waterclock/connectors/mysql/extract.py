"""Builds the SQL of a read from a MariaDB or MySQL database: columns, bounds of windows, parts of a big read.

The query uses bounds that contain all rows of the windows, so that the server can use an index. `rows` then determines
the window of each row. These servers cannot share a transaction's snapshot with other connections. So a digest of each
part is computed in the first transaction, and again in the transaction that reads the part. If both are equal, the part
has the rows of the first moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from waterclock.connectors.arrow_values import Times
from waterclock.connectors.mysql.database import MysqlDatabase, place_of
from waterclock.connectors.mysql.dialect import quote_identifier, source_of
from waterclock.connectors.mysql.statements import run_statement
from waterclock.connectors.mysql.types import MysqlColumn
from waterclock.connectors.sql.columns import SqlExtract, SqlRequestedColumn, no_time_error
from waterclock.connectors.sql.window_bounds import (
    WindowFilter,
    cuts_of,
    format_time_literal,
    local_bounds,
    part_conditions,
)
from waterclock.connectors.windowing import NO_TIME, UNREADABLE_TIME
from waterclock.flow.declarations import Unit
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    from waterclock.connectors.mysql.statements import Connection

_WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint")
_FIRST_DAY = "'0001-01-01'"  # earlier dates are 0000-00-00

Digest = tuple[int, str]
"""A digest of rows: their number, and the sum of the first halves of their hashes."""


@dataclass(frozen=True, slots=True)
class MysqlRequestedColumn(SqlRequestedColumn[MysqlColumn]):
    """A requested column: `taken` is its target, `column` its description in the database."""

    @property
    def is_text(self) -> bool:
        """Whether the column is read as the text of its values."""
        kind = self.taken.type.strip().lower()
        return kind == "string" or kind.startswith(("char", "varchar"))

    @property
    def sql(self) -> str:
        """The SQL expression that reads the column."""
        return self.column.text if self.is_text else self.column.asked


@dataclass(frozen=True, slots=True)
class MysqlExtract(SqlExtract[MysqlDatabase, MysqlRequestedColumn]):
    """A read of rows from a MariaDB or MySQL table or query.

    `part` is an SQL condition that selects a part. `digest` is the expected digest of its rows, computed in the first
    transaction. `most` limits the number of rows.
    """

    part: str | None = None
    digest: Digest | None = None
    most: int | None = None


def parts_of(connection: Connection, unit: Unit, extract: MysqlExtract, partitions: int) -> list[MysqlExtract]:
    """Return an extract for each part to read in parallel, with its digest: time ranges, or ranges of the primary key.

    Cost: all rows once
    """
    conditions: list[str] = []
    if partitions > 1 and extract.by_window:
        conditions = list(_spans(extract.by_window, extract.times, partitions))
    elif partitions > 1:
        conditions = list(_ranges(connection, unit, partitions))
    parts = [replace(extract, part=condition) for condition in conditions]
    return [replace(part, digest=digest_of(connection, part)) for part in parts] or [extract]


def _spans(by_window: WindowFilter, times: Times, count: int) -> Iterator[str]:
    cuts = cuts_of(by_window, times, count)
    literals = dict.fromkeys(
        _literal(cut) if by_window.is_local else format_bound(cut, by_window, times) for cut in cuts
    )
    yield from part_conditions(quote_identifier(by_window.time_column), list(literals))


def _ranges(connection: Connection, unit: Unit, count: int) -> Iterator[str]:
    """Yield conditions that split a table into ranges of its primary key; none unless the key is one whole number."""
    if unit.query is not None:
        return
    keys = run_statement(
        connection,
        "SELECT k.COLUMN_NAME, c.DATA_TYPE FROM information_schema.KEY_COLUMN_USAGE AS k"
        " JOIN information_schema.COLUMNS AS c USING (TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME)"
        " WHERE k.CONSTRAINT_NAME = 'PRIMARY' AND TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s",
        place_of(unit),
    ).rows
    if len(keys) != 1 or str(keys[0][1]).lower() not in _WHOLE:
        return
    name = quote_identifier(str(keys[0][0]))
    low, high = run_statement(connection, f"SELECT MIN({name}), MAX({name}) FROM {source_of(unit)}").fetchone()
    if low is None:
        return
    step = max(1, -(-(int(high) - int(low) + 1) // count))
    yield from part_conditions(name, [str(at) for at in range(int(low) + step, int(high) + 1, step)])


def query_of(extract: MysqlExtract) -> str:
    """Return the query for the requested columns.

    If rows are read by window, `micros` of the data time follows them.
    """
    selected = [one.sql for one in extract.wanted]
    if extract.by_window:
        selected.append(micros(extract.by_window))
    limit = f" LIMIT {extract.most}" if extract.most else ""
    return f"SELECT {', '.join(selected) or '1'} FROM {extract.source}{_where(extract)}{limit}"


def digest_of(connection: Connection, extract: MysqlExtract) -> Digest:
    """Return the digest of the rows that an extract would read."""
    columns = [one.sql for one in extract.wanted] + ([micros(extract.by_window)] if extract.by_window else [])
    hashes = ", ".join(f"COALESCE(MD5({sql}), '-')" for sql in columns) or "''"
    first = f"CAST(CONV(LEFT(MD5(CONCAT({hashes})), 16), 16, 10) AS UNSIGNED)"
    rows, total = run_statement(
        connection, f"SELECT COUNT(*), SUM({first}) FROM {extract.source}{_where(extract)}"
    ).fetchone()
    return int(rows), str(total)


def _where(extract: MysqlExtract) -> str:
    conditions = [extract.part] if extract.part else []
    if extract.by_window:
        conditions.append(within(extract.by_window, extract.times))
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def micros(by_window: WindowFilter) -> str:
    """Return SQL for a row's time in microseconds since 1970; NULL for an invalid date.

    A time without a zone counts as UTC. A numeric column is returned as it is, in its own unit.
    """
    name = quote_identifier(by_window.time_column)
    return name if by_window.is_number else f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {name})"


def within(by_window: WindowFilter, times: Times) -> str:
    """Return an SQL condition that matches all rows of the windows, and maybe more, and that an index can serve."""
    name, windows = quote_identifier(by_window.time_column), by_window.windows
    start, end = windows[0].start, windows[-1].end
    if by_window.is_local:
        low, high = (_literal(at) for at in local_bounds(start, end, times.zone))
    else:
        low, high = (format_bound(at, by_window, times) for at in (start, end))
    return f"{name} >= {low} AND {name} < {high}"


def format_bound(at: datetime, of: WindowFilter, times: Times) -> str:
    """Format an instant as an SQL literal of a time column's type."""
    if of.is_number:
        return format_time_literal(at, of.kind, times)
    return _literal(at.astimezone(nominal_zone(times.zone) if of.is_local else UTC))


def _literal(at: datetime) -> str:
    return f"'{at:%Y-%m-%d %H:%M:%S.%f}'"


def set_aside(connection: Connection, extract: MysqlExtract) -> Mapping[str, int]:
    """Count the rows whose data time is missing or 0000-00-00, which belong to no window. An index finds them."""
    if extract.by_window is None:
        return {}
    name = quote_identifier(extract.by_window.time_column)
    before = "FALSE" if extract.by_window.is_number else f"{name} < {_FIRST_DAY}"
    missing, zero = run_statement(
        connection,
        f"SELECT COALESCE(SUM({name} IS NULL), 0), COALESCE(SUM({before}), 0)"
        f" FROM {extract.source} WHERE {name} IS NULL OR {before}",
    ).fetchone()
    return {why: int(rows) for why, rows in ((NO_TIME, missing), (UNREADABLE_TIME, zero)) if rows}


def require_time(column: MysqlColumn, unit: Unit) -> str:
    """Return the kind of a column's times. Raises  E815 for a column that is not a time."""
    if column.time_kind is not None:
        return column.time_kind
    times = "a timestamp, a datetime, a date, or an integer that counts from 1970, so that an index can find the rows"
    fix = (
        f"collect BY DATA TIME {column.name}_time FROM {unit.connection} QUERY"
        f" 'SELECT *, CAST({quote_identifier(column.name)} AS DATETIME(6)) AS {quote_identifier(f'{column.name}_time')}"
        f" FROM {source_of(unit)}'"
    )
    raise no_time_error(column.name, column.kind, str(unit), times, fix)
