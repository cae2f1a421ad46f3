"""Splits a big read of a MariaDB or MySQL database into parts, and counts rows without a data time.

These servers cannot share a transaction's snapshot with other connections. So a digest of each part is computed in the
first transaction, and again in the transaction that reads the part. If both are equal, the part has not changed
between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from waterclock.connectors.arrow_values import Times
from waterclock.connectors.mysql.database import MysqlDatabase, split_table_name
from waterclock.connectors.mysql.dialect import DIALECT, quote_identifier, source_of
from waterclock.connectors.mysql.statements import run_statement
from waterclock.connectors.mysql.types import MysqlColumn
from waterclock.connectors.sql.window_bounds import WindowFilter, cuts_of, part_conditions
from waterclock.connectors.sql.window_queries import PartialExtract, RequestedExpression, format_bound, local_literal
from waterclock.connectors.windowing import NO_TIME, UNREADABLE_TIME
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.mysql.statements import Connection

_WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint")
_FIRST_DAY = "'0001-01-01'"  # earlier dates are 0000-00-00

Digest = tuple[int, str]
"""A digest of rows: their number, and the sum of the first halves of their hashes."""


@dataclass(frozen=True, slots=True)
class MysqlRequestedColumn(RequestedExpression[MysqlColumn]):
    """A column to read, with its description in the database."""


@dataclass(frozen=True, slots=True)
class MysqlExtract(PartialExtract[MysqlDatabase, MysqlRequestedColumn]):
    """A query for rows. `digest` is the expected digest of a part, which was computed in the first transaction."""

    digest: Digest | None = None


def parts_of(connection: Connection, unit: Unit, extract: MysqlExtract, partitions: int) -> list[MysqlExtract]:
    """Return an extract for each part to read in parallel, with its digest.

    Parts are ranges of time or of the primary key. Cost: one read of all rows, if there are several parts.
    """
    conditions: list[str] = []
    if partitions > 1 and extract.by_window:
        conditions = list(_time_conditions(extract.by_window, extract.times, partitions))
    elif partitions > 1:
        conditions = list(_key_conditions(connection, unit, partitions))
    parts = [replace(extract, part=condition) for condition in conditions]
    return [replace(part, digest=digest_of(connection, part)) for part in parts] or [extract]


def _time_conditions(by_window: WindowFilter, times: Times, count: int) -> Iterator[str]:
    cuts = cuts_of(by_window, times, count)
    literals = dict.fromkeys(
        local_literal(cut, DIALECT) if by_window.is_local else format_bound(cut, by_window, times, DIALECT)
        for cut in cuts
    )
    yield from part_conditions(quote_identifier(by_window.time_column), list(literals))


def _key_conditions(connection: Connection, unit: Unit, count: int) -> Iterator[str]:
    """Yield SQL conditions that split a table by its primary key; nothing unless the key is one whole number."""
    if unit.query is not None:
        return
    keys = run_statement(
        connection,
        "SELECT k.COLUMN_NAME, c.DATA_TYPE FROM information_schema.KEY_COLUMN_USAGE AS k"
        " JOIN information_schema.COLUMNS AS c USING (TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME)"
        " WHERE k.CONSTRAINT_NAME = 'PRIMARY' AND TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s",
        split_table_name(unit),
    ).rows
    if len(keys) != 1 or str(keys[0][1]).lower() not in _WHOLE:
        return
    name = quote_identifier(str(keys[0][0]))
    low, high = run_statement(connection, f"SELECT MIN({name}), MAX({name}) FROM {source_of(unit)}").fetchone()
    if low is None:
        return
    step = max(1, -(-(int(high) - int(low) + 1) // count))
    yield from part_conditions(name, [str(at) for at in range(int(low) + step, int(high) + 1, step)])


def digest_of(connection: Connection, extract: MysqlExtract) -> Digest:
    """Compute the digest of the rows that an extract would read."""
    hashes = ", ".join(f"COALESCE(MD5({sql}), '-')" for sql in extract.select_list(DIALECT)) or "''"
    first = f"CAST(CONV(LEFT(MD5(CONCAT({hashes})), 16), 16, 10) AS UNSIGNED)"
    rows, total = run_statement(
        connection, f"SELECT COUNT(*), SUM({first}) FROM {extract.source}{extract.where_sql(DIALECT)}"
    ).fetchone()
    return int(rows), str(total)


def count_excluded_rows(connection: Connection, extract: MysqlExtract) -> Mapping[str, int]:
    """Count the rows whose data time is NULL or 0000-00-00, which belong to no window."""
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
