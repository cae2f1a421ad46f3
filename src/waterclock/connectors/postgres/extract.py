"""Builds the SQL of a batch from a PostgreSQL database: columns, bounds of its windows, parts to read in parallel.

Parts are SQL conditions. The query uses bounds that contain all wanted rows, so that the server can use an index.
`rows` then determines the window of each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from waterclock.connectors.column_matching import Taken
from waterclock.connectors.postgres.database import PostgresDatabase, quote_identifier, source_of
from waterclock.connectors.sql import window_bounds
from waterclock.connectors.sql.window_bounds import WindowFilter, format_time_literal, local_literal
from waterclock.connectors.values import Times
from waterclock.connectors.windowing import NO_TIME
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

ROWS_A_PART = 500_000
MOST_PARTS = 64
ARRAY = re.compile(r"array\s*<(.+)>", re.IGNORECASE)
_DAY = timedelta(days=1)
TIMES = frozenset({"timestamp", "timestamptz", "date", "int2", "int4", "int8"})


@dataclass(frozen=True, slots=True)
class PostgresRequestedColumn:
    """A requested column. `kind` is its database type; for an array, the type of its elements."""

    taken: Taken
    kind: str
    is_array: bool


@dataclass(frozen=True, slots=True)
class PostgresExtract:
    """Everything needed to read some rows, here or in a Python worker of Spark.

    `part` is an SQL condition that selects a part, `most` limits the number of rows, and `snapshot` is the exported
    snapshot that all parts use.
    """

    database: PostgresDatabase
    where: str
    source: str
    wanted: tuple[PostgresRequestedColumn, ...]
    times: Times
    by_window: WindowFilter | None = None
    part: str | None = None
    snapshot: str | None = None
    most: int | None = None


def parts_of(connection: Connection, extract: PostgresExtract, partitions: int | None) -> list[str | None]:
    """Return the conditions of parts to read in parallel: time ranges for windows, else blocks of a table.

    The number of parts is declared, or follows from the server's estimate of the rows.
    """
    count = partitions or min(MOST_PARTS, -(-estimate_size(connection, extract)[0] // ROWS_A_PART))
    if count <= 1:
        return [None]
    if extract.by_window:
        return list(_spans(extract.by_window, extract.times, count))
    return list(_blocks(connection, extract.source, count))


def estimate_size(connection: Connection, extract: PostgresExtract) -> tuple[int, int]:
    """Return the number of rows and of bytes that the server's planner estimates, without reading rows."""
    row = connection.execute(f"EXPLAIN (FORMAT JSON) {query_of(extract)}").fetchone()
    plan = row[0][0]["Plan"] if row else {"Plan Rows": 0, "Plan Width": 0}
    return int(plan["Plan Rows"]), int(plan["Plan Rows"]) * int(plan["Plan Width"])


def _spans(by_window: WindowFilter, times: Times, count: int) -> Iterator[str]:
    start, end = by_window.windows[0].start - _DAY, by_window.windows[-1].end + _DAY
    name = quote_identifier(by_window.time_column)
    cuts = [start + (end - start) * at / count for at in range(1, count)]
    if by_window.kind in {"timestamp", "date"}:
        # where an hour repeats, local times do not ascend with instants: any ascending cuts divide the rows
        rules = nominal_zone(times.zone)
        literals = [local_literal(cut) for cut in sorted({cut.astimezone(rules).replace(tzinfo=None) for cut in cuts})]
    else:
        literals = list(dict.fromkeys(format_time_literal(cut, by_window.kind, times) for cut in cuts))
    yield f"{name} < {literals[0]}"
    for low, high in pairwise(literals):
        yield f"{name} >= {low} AND {name} < {high}"
    yield f"{name} >= {literals[-1]}"


def _blocks(connection: Connection, source: str, count: int) -> Iterator[str | None]:
    """Split a table into ranges of blocks. Within one snapshot, no row moves to another block."""
    asked = "SELECT relkind, pg_relation_size(oid) / 8192 FROM pg_class WHERE oid = to_regclass(%s)"
    row = None if source.startswith("(") else connection.execute(asked, (source,)).fetchone()
    if row is None or row[0] not in {"r", "m"} or row[1] < count:
        yield None
        return
    # the table is not rewritten meanwhile: an earlier read locks it until the transaction ends
    step = -(-int(row[1]) // count)
    for at in range(count):
        above = f"ctid >= '({at * step},0)'" if at else "true"
        below = f"ctid < '({(at + 1) * step},0)'" if at < count - 1 else "true"
        yield f"{above} AND {below}"


def query_of(extract: PostgresExtract) -> str:
    """Return the query for the wanted columns, followed by the time column that determines the labels."""
    conditions = [extract.part] if extract.part else []
    selected = [_render_column(one) for one in extract.wanted]
    if extract.by_window:
        selected.append(micros(extract.by_window))
        conditions.append(within(extract.by_window, extract.times))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    limit = f" LIMIT {extract.most}" if extract.most else ""
    return f"SELECT {', '.join(selected) or '1'} FROM {extract.source}{where}{limit}"


def _render_column(one: PostgresRequestedColumn) -> str:
    name = quote_identifier(one.taken.source)
    return f"array_to_json({name})" if one.is_array and ARRAY.fullmatch(one.taken.type.strip()) else name


def micros(by_window: WindowFilter) -> str:
    """Return SQL for a row's time in microseconds since 1970, where a time without a zone counts as UTC."""
    name = quote_identifier(by_window.time_column)
    if by_window.kind.startswith("int"):
        return name
    return f"(extract(epoch FROM {name}) * 1000000)::bigint"


def within(by_window: WindowFilter, times: Times) -> str:
    """Return a condition that an index can serve. It matches all rows of the windows, and maybe more."""
    return window_bounds.within(quote_identifier(by_window.time_column), by_window, times)


def set_aside(connection: Connection, extract: PostgresExtract) -> Mapping[str, int]:
    """Count the rows without a time, which belong to no window; an index on the time column finds them."""
    if extract.by_window is None:
        return {}
    name = quote_identifier(extract.by_window.time_column)
    row = connection.execute(f"SELECT count(*) FROM {extract.source} WHERE {name} IS NULL").fetchone()
    missing = int(row[0]) if row else 0
    return {NO_TIME: missing} if missing else {}


def require_time(time_column: str, kind: str, unit: Unit) -> None:
    """Refuse a column that is not a time.

    Raises  E815 for a text or another type
    """
    if kind in TIMES:
        return
    raise WaterclockError(
        "E815",
        f"{time_column} is of type {kind}, which is no time",
        where=str(unit),
        why="BY DATA TIME needs a timestamp, a date, or a number since 1970, by which an index can find the rows",
        fix=f"collect BY DATA TIME {time_column}_time FROM {unit.connection} QUERY"
        f" 'SELECT *, {quote_identifier(time_column)}::timestamptz"
        f" AS {quote_identifier(f'{time_column}_time')} FROM {source_of(unit)}'",
    )
