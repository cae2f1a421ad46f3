"""What a batch asks of a MariaDB or MySQL database: columns, the rows of its windows, the parts of a big read.

What the server is asked for is a bound of what is wanted, so that it can use an index; which window a row lies in is
decided in `rows`. No server lends the moment of a transaction to others. So the rows of each part are added up in the
first transaction, and again in the one that reads the part: where both come to the same, it reads the rows of that
moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from waterclock.connectors.column_matching import Taken
from waterclock.connectors.mysql.database import MysqlDatabase, asked, place_of, quoted, source_of
from waterclock.connectors.mysql.types import MysqlColumn
from waterclock.connectors.values import Times
from waterclock.connectors.window_bounds import WindowFilter, bound_of, local_bounds
from waterclock.connectors.windowing import NO_TIME, UNREADABLE_TIME
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    from waterclock.connectors.mysql.database import Connection

_DAY = timedelta(days=1)
_WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint")
_FIRST_DAY = "'0001-01-01'"  # what lies before is 0000-00-00

Digest = tuple[int, str]
"""How many rows, and the sum of the first half of a hash of each."""


@dataclass(frozen=True, slots=True)
class MysqlColumns:
    """A column that is taken, and what it is in the database."""

    taken: Taken
    column: MysqlColumn

    @property
    def is_text(self) -> bool:
        """Whether it becomes the text of whatever it is."""
        kind = self.taken.type.strip().lower()
        return kind == "string" or kind.startswith(("char", "varchar"))

    @property
    def sql(self) -> str:
        """What is asked for it."""
        return self.column.text if self.is_text else self.column.asked


@dataclass(frozen=True, slots=True)
class MysqlExtract:
    """All that is needed to read some rows, here or in a Python worker of Spark.

    `part` is a condition in SQL that bounds a part, `digest` what its rows come to at the moment they are to be of;
    `most` a number of rows.
    """

    database: MysqlDatabase
    where: str
    source: str
    wanted: tuple[MysqlColumns, ...]
    times: Times
    by_window: WindowFilter | None = None
    part: str | None = None
    digest: Digest | None = None
    most: int | None = None


def parts_of(connection: Connection, unit: Unit, extract: MysqlExtract, partitions: int) -> list[MysqlExtract]:
    """Bound the parts that are read side by side, and add each of them up: spans of time for windows, else of the key.

    Cost: one look at all that is read, by the server.
    """
    conditions: list[str] = []
    if partitions > 1 and extract.by_window:
        conditions = list(_spans(extract.by_window, extract.times, partitions))
    elif partitions > 1:
        conditions = list(_ranges(connection, unit, partitions))
    parts = [replace(extract, part=condition) for condition in conditions]
    return [replace(part, digest=digest_of(connection, part)) for part in parts] or [extract]


def _spans(by_window: WindowFilter, times: Times, count: int) -> Iterator[str]:
    start, end = by_window.windows[0].start - _DAY, by_window.windows[-1].end + _DAY
    cuts = [start + (end - start) * at / count for at in range(1, count)]
    if by_window.is_local:
        # where an hour comes twice, local times do not ascend with instants: any cuts that ascend part the rows
        rules = nominal_zone(times.zone)
        literals = [_literal(cut) for cut in sorted({cut.astimezone(rules).replace(tzinfo=None) for cut in cuts})]
    else:
        literals = list(dict.fromkeys(bound(cut, by_window, times) for cut in cuts))
    yield from _between(quoted(by_window.time_column), literals)


def _ranges(connection: Connection, unit: Unit, count: int) -> Iterator[str]:
    """Cut a table by its primary key, where that is one whole number."""
    if unit.query is not None:
        return
    keys = asked(
        connection,
        "SELECT k.COLUMN_NAME, c.DATA_TYPE FROM information_schema.KEY_COLUMN_USAGE AS k"
        " JOIN information_schema.COLUMNS AS c USING (TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME)"
        " WHERE k.CONSTRAINT_NAME = 'PRIMARY' AND TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s",
        place_of(unit),
    ).rows
    if len(keys) != 1 or str(keys[0][1]).lower() not in _WHOLE:
        return
    name = quoted(str(keys[0][0]))
    low, high = asked(connection, f"SELECT MIN({name}), MAX({name}) FROM {source_of(unit)}").fetchone()
    if low is None:
        return
    step = max(1, -(-(int(high) - int(low) + 1) // count))
    yield from _between(name, [str(at) for at in range(int(low) + step, int(high) + 1, step)])


def _between(name: str, cuts: list[str]) -> Iterator[str]:
    if not cuts:
        return
    yield f"{name} < {cuts[0]}"
    for low, high in pairwise(cuts):
        yield f"{name} >= {low} AND {name} < {high}"
    yield f"{name} >= {cuts[-1]}"


def query_of(extract: MysqlExtract) -> str:
    """Return the query for the columns wanted, and for the time by which rows are labelled behind them."""
    selected = [one.sql for one in extract.wanted]
    if extract.by_window:
        selected.append(micros(extract.by_window))
    limit = f" LIMIT {extract.most}" if extract.most else ""
    return f"SELECT {', '.join(selected) or '1'} FROM {extract.source}{_where(extract)}{limit}"


def digest_of(connection: Connection, extract: MysqlExtract) -> Digest:
    """Add up the rows that an extract would read."""
    columns = [one.sql for one in extract.wanted] + ([micros(extract.by_window)] if extract.by_window else [])
    hashes = ", ".join(f"COALESCE(MD5({sql}), '-')" for sql in columns) or "''"
    first = f"CAST(CONV(LEFT(MD5(CONCAT({hashes})), 16), 16, 10) AS UNSIGNED)"
    rows, total = asked(connection, f"SELECT COUNT(*), SUM({first}) FROM {extract.source}{_where(extract)}").fetchone()
    return int(rows), str(total)


def _where(extract: MysqlExtract) -> str:
    conditions = [extract.part] if extract.part else []
    if extract.by_window:
        conditions.append(within(extract.by_window, extract.times))
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def micros(by_window: WindowFilter) -> str:
    """Write a row's time as a number: microseconds since 1970, of a time without a zone as if it were in UTC.

    Of what is no day of a calendar, such as 0000-00-00, it is NULL.
    """
    name = quoted(by_window.time_column)
    return name if by_window.is_number else f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {name})"


def within(by_window: WindowFilter, times: Times) -> str:
    """Bound what the server looks at, so that it can use an index; which window a row is in is decided here."""
    name, windows = quoted(by_window.time_column), by_window.windows
    start, end = windows[0].start, windows[-1].end
    if by_window.is_local:
        low, high = (_literal(at) for at in local_bounds(start, end, times.zone))
    else:
        low, high = (bound(at, by_window, times) for at in (start, end))
    return f"{name} >= {low} AND {name} < {high}"


def bound(at: datetime, of: WindowFilter, times: Times) -> str:
    """Write an instant as a literal of a column's type."""
    if of.is_number:
        return bound_of(at, of.kind, times)
    return _literal(at.astimezone(nominal_zone(times.zone) if of.is_local else UTC))


def _literal(at: datetime) -> str:
    return f"'{at:%Y-%m-%d %H:%M:%S.%f}'"


def set_aside(connection: Connection, extract: MysqlExtract) -> Mapping[str, int]:
    """Count the rows without a time, and with 0000-00-00, which no window will ever take; an index finds them."""
    if extract.by_window is None:
        return {}
    name = quoted(extract.by_window.time_column)
    before = "FALSE" if extract.by_window.is_number else f"{name} < {_FIRST_DAY}"
    missing, zero = asked(
        connection,
        f"SELECT COALESCE(SUM({name} IS NULL), 0), COALESCE(SUM({before}), 0)"
        f" FROM {extract.source} WHERE {name} IS NULL OR {before}",
    ).fetchone()
    return {why: int(rows) for why, rows in ((NO_TIME, missing), (UNREADABLE_TIME, zero)) if rows}


def require_time(column: MysqlColumn, unit: Unit) -> str:
    """Return the kind of time that a column says.

    Raises  E815 for one that says none
    """
    if column.time_kind is not None:
        return column.time_kind
    raise WaterclockError(
        "E815",
        f"{column.name} is of type {column.kind}, which is no time",
        where=str(unit),
        why="BY DATA TIME needs a timestamp, a datetime, a date, or a whole number since 1970, by which an index can"
        " find the rows",
        fix=f"collect BY DATA TIME {column.name}_time FROM {unit.connection} QUERY"
        f" 'SELECT *, CAST({quoted(column.name)} AS DATETIME(6)) AS {quoted(f'{column.name}_time')}"
        f" FROM {source_of(unit)}'",
    )
