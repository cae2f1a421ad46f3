"""Writes the rows of a slice to a MariaDB or MySQL table, and merges them by their keys.

Rows are written in statements of some hundred kilobytes. The server rounds some values with a warning and others
without one. An error is raised in both cases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.mysql.destination import MysqlDestinationColumn
from waterclock.connectors.mysql.dialect import quote_identifier, session_in, table_of
from waterclock.connectors.mysql.statements import run_statement
from waterclock.connectors.slice_rows import to_portable_types
from waterclock.connectors.sql.capabilities import GONE
from waterclock.connectors.sql.destination import stored_names
from waterclock.connectors.sql.exact_values import inexact_value_error, require_exact_values
from waterclock.connectors.sql.slice_tuples import rows_of_slice
from waterclock.connectors.sql.staged_slices import StagedSlice, require_distinct_keys, stage_of
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    import pyarrow as pa

    from waterclock.connectors.mysql.statements import Connection

_STATEMENT = 500_000  # bytes: a server accepts 16 MB, unless it is configured for less


def make_staged(
    connection: Connection,
    _unit: Unit,
    delivery: Delivery,
    there: Mapping[str, MysqlDestinationColumn],
    number: int,
) -> StagedSlice:
    """Create a temporary table for the rows to merge, with the destination's types, before the transaction starts."""
    table = quote_identifier(f"waterclock_staged_{number}")
    columns = [there[name.lower()] for name in delivery.column_names]
    keys = [there[key.lower()] for key in delivery.keys]
    listed = ", ".join(f"{quote_identifier(each.name)} {each.sql} NULL DEFAULT NULL" for each in columns)
    index = (
        f", KEY ({', '.join(quote_identifier(key.name) for key in keys)})"
        if all(key.is_indexable for key in keys)
        else ""
    )
    run_statement(
        connection, f"CREATE TEMPORARY TABLE {table} ({listed}, {GONE} BOOLEAN NOT NULL{index}) ENGINE = InnoDB"
    )
    return stage_of(session_in(connection), table, delivery, stored_names(there))


def merge(
    connection: Connection,
    unit: Unit,
    delivery: Delivery,
    there: Mapping[str, MysqlDestinationColumn],
    staged: StagedSlice,
) -> tuple[int, int]:
    """Replace the rows whose keys are in the slice. Return the numbers of rows written and deleted."""
    put(connection, staged.name, delivery, there, True)  # noqa: FBT003
    texts = [key for key in delivery.keys if there[key.lower()].is_text]
    require_distinct_keys(session_in(connection), unit, delivery, staged, texts, "a collation such as utf8mb4_bin")
    table, own, same = table_of(unit), staged.name, staged.same_keys(delivery)
    gone = run_statement(connection, f"DELETE t FROM {table} AS t JOIN {own} AS s ON {same} WHERE s.{GONE}").rowcount
    if delivery.is_whole and not delivery.is_by_label:
        unmatched = f"LEFT JOIN {own} AS s ON {same} AND NOT s.{GONE} WHERE s.{GONE} IS NULL"
        gone += run_statement(connection, f"DELETE t FROM {table} AS t {unmatched}").rowcount
    rows = int(run_statement(connection, f"SELECT COUNT(*) FROM {own} WHERE NOT {GONE}").fetchone()[0])
    if update := ", ".join(f"t.{its} = s.{name}" for name, its in staged.changed_columns(delivery)):
        joined = f"{table} AS t JOIN {own} AS s ON {same}"
        run_statement(connection, f"UPDATE {joined} SET {update} WHERE NOT s.{GONE}{staged.label_guard(delivery)}")
    listed = ", ".join(its for _, its in staged.columns.values())
    inserted = ", ".join(f"s.{name}" for name, _ in staged.columns.values())
    run_statement(
        connection,
        f"INSERT INTO {table} ({listed}) SELECT {inserted} FROM {own} AS s"
        f" WHERE NOT s.{GONE} AND NOT EXISTS (SELECT 1 FROM {table} AS t WHERE {same})",
    )
    return rows, gone


def put(
    connection: Connection,
    table: str,
    delivery: Delivery,
    there: Mapping[str, MysqlDestinationColumn],
    with_marks: bool,  # noqa: FBT001 - passed by position, as a function of DdlWriter
) -> int:
    """Write the slice's rows to a table, and return their number. `with_marks` adds a flag for deleted rows.

    Raises E812 for a value that its column would not store exactly.
    """
    names = [there[name.lower()].name for name in delivery.column_names] + ([GONE] if with_marks else [])
    head = f"INSERT INTO {table} ({', '.join(map(quote_identifier, names))}) VALUES "
    places = f"({', '.join(['%s'] * len(names))})"
    where = f"{delivery.publish}@{delivery.label_text}"

    def convert(values: pa.Array, name: str, kind: str) -> list[Any]:
        _require_exact_values(values, there[name], where)
        plain: list[Any] = to_portable_types(values, kind).to_pylist()
        return plain

    rows = 0
    packet = int(run_statement(connection, "SELECT @@max_allowed_packet").fetchone()[0])
    with connection.cursor() as cursor:
        held: list[bytes] = []
        size = head_size = len(head.encode())

        def write() -> None:
            cursor.execute(head.encode() + b",".join(held))
            if cursor.warning_count:
                _raise_warnings(connection, delivery)
            held.clear()

        stored = [column.stored for column in there.values()]
        for row in rows_of_slice(delivery, convert, with_marks=with_marks, stored=stored):
            made = cursor.mogrify(places, row).encode("utf-8", "surrogateescape")
            if head_size + len(made) >= packet:
                raise _row_too_large_error(delivery, head_size + len(made), packet)
            if held and size + len(made) >= min(_STATEMENT, packet):
                write()
                size = head_size
            held.append(made)
            size += len(made) + 1
            rows += 1
        if held:
            write()
    return rows


def _row_too_large_error(delivery: Delivery, size: int, packet: int) -> WaterclockError:
    return WaterclockError(
        "E812",
        "a row is too large for the server",
        where=f"{delivery.publish}@{delivery.label_text}",
        why=f"as SQL it has {size} bytes, and max_allowed_packet is {packet}; the transaction was undone",
        fix="raise max_allowed_packet on the server, or shorten the row in the transform",
    )


def _raise_warnings(connection: Connection, delivery: Delivery) -> None:
    found = run_statement(connection, "SHOW WARNINGS").rows
    warnings = "; ".join(dict.fromkeys(str(row[2]) for row in found))
    raise WaterclockError(
        "E812",
        "the destination would cut or round a value",
        where=f"{delivery.publish}@{delivery.label_text}",
        why=f"{warnings}; the transaction was undone",
        fix="widen the column at the destination, or round or cast it in the transform",
    )


def _require_exact_values(values: pa.Array, into: MysqlDestinationColumn, where: str) -> None:
    """Raise E812 for values that the server would silently round, pad or replace."""
    import pyarrow as pa

    require_exact_values(values, into.stored, where)
    if into.kind in {"enum", "set"}:
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            _require_enum_texts(values, into, where)
        elif values.null_count < len(values):
            why = "reads a number as a position in its list; send the text of the value"
            raise inexact_value_error(into.stored, values.drop_null()[0].as_py(), why, where)
    _require_unpadded_values(values, into, where)


def _require_unpadded_values(values: pa.Array, into: MysqlDestinationColumn, where: str) -> None:
    """Raise E812 for values that the server would pad, and years of two digits, which it would read as 1970 to 2069."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if into.kind == "binary" and (pa.types.is_binary(kind) or pa.types.is_string(kind)):
        width = int(into.sql.partition("(")[2].partition(")")[0] or 1)
        short = pc.less(pc.binary_length(values), width)
        found, why = values.filter(short), f"pads values shorter than {width} bytes with zeros"
    elif into.kind == "year" and (pa.types.is_integer(kind) or pa.types.is_string(kind)):
        short = pc.match_substring_regex(values.cast(pa.string()), r"^\s*([1-9]|0?[0-9]{2}|0{1,3}[0-9])\s*$")
        found, why = values.filter(short), "reads years of two digits as 1970 to 2069"
    else:
        return
    if len(found):
        raise inexact_value_error(into.stored, found[0].as_py(), why, where)


def _require_enum_texts(values: pa.Array, into: MysqlDestinationColumn, where: str) -> None:
    import pyarrow.compute as pc

    listed = re.findall(r"'((?:[^']|'')*)'", into.sql)
    for value in pc.unique(values.filter(pc.match_substring_regex(values, r"^\s*[0-9]+\s*$"))).to_pylist():
        if value is not None and value not in listed:
            why = "has no such value, and reads a number as a position in its list"
            raise inexact_value_error(into.stored, value, why, where)
