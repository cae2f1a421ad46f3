"""Builds the queries that read a PostgreSQL table or query: columns, window conditions, and parts to read in parallel.

Parts are SQL conditions. The bounds in a query include all rows of the windows and maybe others, so that the server can
use an index. `rows` then determines the window of each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from waterclock.connectors.arrow_values import Times
from waterclock.connectors.postgres.database import PostgresDatabase
from waterclock.connectors.postgres.dialect import quote_identifier, source_of
from waterclock.connectors.postgres.types import PostgresColumn
from waterclock.connectors.sql import window_bounds
from waterclock.connectors.sql.columns import SqlExtract, SqlRequestedColumn, count_missing_times, no_time_error
from waterclock.connectors.sql.window_bounds import (
    WindowFilter,
    cuts_of,
    format_time_literal,
    local_literal,
    part_conditions,
)
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

ROWS_A_PART = 500_000
MOST_PARTS = 64
ARRAY = re.compile(r"array\s*<(.+)>", re.IGNORECASE)
TIMES = frozenset({"timestamp", "timestamptz", "date", "int2", "int4", "int8"})


@dataclass(frozen=True, slots=True)
class PostgresRequestedColumn(SqlRequestedColumn[PostgresColumn]):
    """A column to read. `taken` has its name and type in the table, `column` its description in the database."""

    @property
    def kind(self) -> str:
        """The column's database type; for an array, the type of the elements."""
        return self.column.kind

    @property
    def is_array(self) -> bool:
        """True if the column's values are arrays."""
        return self.column.is_array


@dataclass(frozen=True, slots=True)
class PostgresExtract(SqlExtract[PostgresDatabase, PostgresRequestedColumn]):
    """A query for rows of a PostgreSQL table or query.

    `part` is an SQL condition that selects a part, `most` limits the number of rows, and `snapshot` is the exported
    snapshot that all parts use.
    """

    part: str | None = None
    snapshot: str | None = None
    most: int | None = None


def parts_of(connection: Connection, extract: PostgresExtract, partitions: int | None) -> list[str | None]:
    """Return SQL conditions that split the rows into parts to read in parallel; [None] for a single part.

    The parts are ranges of time if rows are read by window, else ranges of the table's blocks.

    Their number is `partitions`, or else depends on the server's estimate of the number of rows.
    """
    count = partitions or min(MOST_PARTS, -(-estimate_size(connection, extract)[0] // ROWS_A_PART))
    if count <= 1:
        return [None]
    if extract.by_window:
        return list(_time_conditions(extract.by_window, extract.times, count))
    return list(_block_conditions(connection, extract.source, count))


def estimate_size(connection: Connection, extract: PostgresExtract) -> tuple[int, int]:
    """Return the numbers of rows and bytes that the server's planner estimates."""
    row = connection.execute(f"EXPLAIN (FORMAT JSON) {query_of(extract)}").fetchone()
    plan = row[0][0]["Plan"] if row else {"Plan Rows": 0, "Plan Width": 0}
    return int(plan["Plan Rows"]), int(plan["Plan Rows"]) * int(plan["Plan Width"])


def _time_conditions(by_window: WindowFilter, times: Times, count: int) -> Iterator[str]:
    cuts = cuts_of(by_window, times, count)
    write = local_literal if by_window.is_local else partial(format_time_literal, kind=by_window.kind, times=times)
    literals = dict.fromkeys(write(cut) for cut in cuts)
    yield from part_conditions(quote_identifier(by_window.time_column), list(literals))


def _block_conditions(connection: Connection, source: str, count: int) -> Iterator[str | None]:
    """Yield SQL conditions that split a table into ranges of blocks, or one None if it cannot be split or is small.

    Within one snapshot, no row moves to another block.
    """
    query = "SELECT relkind, pg_relation_size(oid) / 8192 FROM pg_class WHERE oid = to_regclass(%s)"
    row = None if source.startswith("(") else connection.execute(query, (source,)).fetchone()
    if row is None or row[0] not in {"r", "m"} or row[1] < count:
        yield None
        return
    # rows stay in their blocks: an earlier read has locked the table against rewrites until the transaction ends
    step = -(-int(row[1]) // count)
    for at in range(count):
        above = f"ctid >= '({at * step},0)'" if at else "true"
        below = f"ctid < '({(at + 1) * step},0)'" if at < count - 1 else "true"
        yield f"{above} AND {below}"


def query_of(extract: PostgresExtract) -> str:
    """Return the query for the requested columns.

    If rows are read by window, `microseconds_sql` of the data time follows them.
    """
    conditions = [extract.part] if extract.part else []
    selected = [_render_column(one) for one in extract.wanted]
    if extract.by_window:
        selected.append(microseconds_sql(extract.by_window))
        conditions.append(window_condition(extract.by_window, extract.times))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    limit = f" LIMIT {extract.most}" if extract.most else ""
    return f"SELECT {', '.join(selected) or '1'} FROM {extract.source}{where}{limit}"


def _render_column(one: PostgresRequestedColumn) -> str:
    name = quote_identifier(one.taken.source)
    return f"array_to_json({name})" if one.is_array and ARRAY.fullmatch(one.taken.type.strip()) else name


def microseconds_sql(by_window: WindowFilter) -> str:
    """Return SQL for a row's time in microseconds since 1970. A time without a zone counts as UTC.

    For a numeric column, it is the column itself, in its own unit.
    """
    name = quote_identifier(by_window.time_column)
    if by_window.kind.startswith("int"):
        return name
    return f"(extract(epoch FROM {name}) * 1000000)::bigint"


def window_condition(by_window: WindowFilter, times: Times) -> str:
    """Return an SQL condition that matches all rows of the windows, and maybe more, and that an index can serve."""
    return window_bounds.window_range_condition(quote_identifier(by_window.time_column), by_window, times)


def count_excluded_rows(connection: Connection, extract: PostgresExtract) -> Mapping[str, int]:
    """Count the rows without a data time, which belong to no window."""
    if extract.by_window is None:
        return {}
    name = quote_identifier(extract.by_window.time_column)
    sql = f"SELECT count(*) FROM {extract.source} WHERE {name} IS NULL"
    return count_missing_times(connection.execute(sql).fetchone())


def require_time(column: PostgresColumn, unit: Unit) -> str:
    """Return the kind of a column's times. Raises E815 for a type that is not a time."""
    name, kind = column.name, column.type_name
    if kind in TIMES:
        return kind
    times = "a timestamp, a date, or a number that counts from 1970, so that an index can find the rows"
    fix = (
        f"collect BY DATA TIME {name}_time FROM {unit.connection} QUERY"
        f" 'SELECT *, {quote_identifier(name)}::timestamptz AS {quote_identifier(f'{name}_time')}"
        f" FROM {source_of(unit)}'"
    )
    raise no_time_error(name, kind, str(unit), times, fix)
