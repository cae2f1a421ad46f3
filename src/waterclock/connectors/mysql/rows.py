"""Parses rows that a MariaDB or MySQL server sends as text into declared types, and adds the labels of their windows.

The cursor is unbuffered: rows are received one by one, so the whole result is never in memory. Arrow casts the columns.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from waterclock.connectors.arrow_values import Times, arrow_type, column
from waterclock.connectors.column_matching import type_mismatch_error
from waterclock.connectors.local_times import local_column_to_instants
from waterclock.connectors.mysql.dialect import DIALECT
from waterclock.connectors.mysql.extract import MysqlExtract, MysqlRequestedColumn
from waterclock.connectors.spark_frames import FetchSize
from waterclock.connectors.sql.columns import arrow_schema_of
from waterclock.connectors.sql.window_bounds import instants_of_counts, labels_of
from waterclock.connectors.type_mismatch import TypeMismatch
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    import pyarrow as pa

    from waterclock.connectors.mysql.statements import Connection

BATCH_ROWS = 10_000
_WHOLE = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"})
# the server's types whose texts Arrow parses directly; a text column may contain 0x10
_PARSED_DIRECTLY = {
    "whole": _WHOLE,
    "floating": _WHOLE | {"decimal", "float", "double"},
    "decimal": _WHOLE | {"decimal"},
    "date": frozenset({"date"}),
}


def batches(
    connection: Connection, extract: MysqlExtract, fetched: list[int] | None = None
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of an extract in batches of at most `BATCH_ROWS`, with their labels if they are read by window.

    `fetched` counts the rows that the server sent, including those that belong to no window.

    Raises E812 for a value that does not fit its column's type.
    """
    from pymysql.cursors import SSCursor

    from waterclock.connectors.mysql.client import wrap_parser_errors

    schema = arrow_schema_of(extract)
    with closing(SSCursor(connection)) as cursor:
        with _receive_bytes(connection):
            cursor.execute(extract.query(DIALECT))
        fetching = FetchSize(BATCH_ROWS)
        while True:
            with wrap_parser_errors():
                rows = cursor.fetchmany(fetching.rows)
            if not rows:
                break
            if fetched is not None:
                fetched[0] += len(rows)
            batch = _build_batch(rows, extract, schema)
            fetching.update(batch.num_rows, batch.nbytes)
            if batch.num_rows:
                yield batch


@contextmanager
def _receive_bytes(connection: Connection) -> Iterator[None]:
    """Within the block, let the driver return values as the bytes that the server sends, which Arrow parses."""
    before = connection.use_unicode, connection.decoders
    connection.use_unicode, connection.decoders = False, {}
    try:
        yield
    finally:
        connection.use_unicode, connection.decoders = before


def _build_batch(rows: Sequence[tuple[bytes | None, ...]], extract: MysqlExtract, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [pa.array(values, pa.binary()) for values in zip(*rows, strict=True)]
    if not extract.by_window:
        if not extract.wanted:
            return pa.RecordBatch.from_arrays([], schema=schema)
        arrays = [_convert_column(values, one, extract) for values, one in zip(columns, extract.wanted, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    labels, kept = _labels_of_rows(columns.pop(), extract)
    arrays = [
        _convert_column(values.filter(kept), one, extract) for values, one in zip(columns, extract.wanted, strict=True)
    ]
    return pa.RecordBatch.from_arrays([*arrays, labels.filter(kept)], schema=schema)


def _labels_of_rows(texts: pa.Array, extract: MysqlExtract) -> tuple[pa.Array, pa.Array]:
    """Return the label of each row, and whether the row is in any window.

    Raises E812 for an invalid date such as 2013-00-00.
    """
    import pyarrow as pa

    by_window = extract.by_window
    if by_window is None:
        raise AssertionError("rows are labelled by windows")
    if texts.null_count:
        raise WaterclockError(
            "E812",
            f"{by_window.time_column} has a value that is not a calendar date",
            where=extract.where,
            why="a date such as 2013-00-00 is in no window, and no row is dropped silently",
            fix="fix the value at the source, or make it NULL in a QUERY: rows without a time are left out and counted",
        )
    micros = texts.cast(pa.string()).cast(pa.int64()).to_numpy(zero_copy_only=False).astype("int64")
    return labels_of(instants_of_counts(micros, by_window, extract.times), by_window.windows)


def _convert_column(values: pa.Array, one: MysqlRequestedColumn, extract: MysqlExtract) -> pa.Array:
    """Convert values to the column's type. Only zeros at the end of a fraction may be dropped.

    Raises E812 for a value that does not fit its column's type.
    """
    import pyarrow as pa

    wanted = arrow_type(one.taken.type)
    if pa.types.is_binary(wanted):
        return values
    try:
        texts = values.cast(pa.string())
        if pa.types.is_string(wanted):
            return texts
        read = _cast(texts, one, wanted, extract.times)
        return column(texts.to_pylist(), one.taken.type, extract.times) if read is None else read
    except TypeMismatch as error:
        raise type_mismatch_error(one.taken, str(error.value), extract.where) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError) as error:
        raise type_mismatch_error(one.taken, str(error), extract.where) from error


def _cast(texts: pa.Array, one: MysqlRequestedColumn, wanted: pa.DataType, times: Times) -> pa.Array | None:
    """Cast texts with Arrow; return None if they must be parsed in Python."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = one.column.kind
    is_time = pa.types.is_timestamp(wanted)
    try:
        if kind in _PARSED_DIRECTLY.get(_type_class(wanted), frozenset()):
            read = texts.cast(wanted)
            read.validate(full=True)  # Arrow accepts more digits than a DECIMAL has, and Spark fails on them
            return read
        if pa.types.is_integer(wanted) and kind == "decimal":
            return pc.replace_substring_regex(texts, r"\.0*$", "").cast(wanted)
        if is_time and kind in {"timestamp", "datetime", "date"}:
            read = texts.cast(pa.timestamp("us"))
            return local_column_to_instants(read, "UTC" if kind == "timestamp" else times.zone) if wanted.tz else read
    except pa.ArrowInvalid:
        return None
    if is_time and kind in _WHOLE:
        return column(texts.cast(pa.int64()).to_pylist(), one.taken.type, times)
    return None


def _type_class(wanted: pa.DataType) -> str:
    import pyarrow as pa

    sorts = {
        "whole": pa.types.is_integer,
        "floating": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "date": pa.types.is_date,
    }
    return next((name for name, is_so in sorts.items() if is_so(wanted)), "")
