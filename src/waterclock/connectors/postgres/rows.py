"""Parses rows that a PostgreSQL server sends as text into declared types, and adds the labels of their windows.

The server sends rows by COPY as CSV, which Arrow parses. This is fast, as both are implemented in C.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from waterclock.connectors.arrow_values import EPOCH_UNITS, Times, arrow_type, column
from waterclock.connectors.column_matching import type_mismatch_error
from waterclock.connectors.local_times import local_column_to_instants
from waterclock.connectors.postgres.extract import ARRAY, PostgresExtract, PostgresRequestedColumn, query_of
from waterclock.connectors.sql.window_bounds import WindowFilter, labels_of
from waterclock.connectors.type_mismatch import TypeMismatch
from waterclock.errors import WaterclockError
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import pyarrow as pa

    from waterclock.connectors.postgres.database import Connection

_BATCH_BYTES = 8 << 20
_WHOLE = frozenset({"int2", "int4", "int8", "oid"})
_QUOTE, _QUOTES = '"', '""'
_BOM = b"\xef\xbb\xbf"
# the Arrow type as which a time is parsed, by its database type
_PARSED_TIMES: Mapping[str, Callable[[], Any]] = {
    "timestamp": lambda: arrow_type("timestamp_ntz"),
    **dict.fromkeys(("int2", "int4", "int8"), lambda: arrow_type("bigint")),
    **dict.fromkeys(("float4", "float8"), lambda: arrow_type("double")),
}


def batches(
    connection: Connection, extract: PostgresExtract, fetched: list[int] | None = None
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of an extract in batches of some megabytes, with their labels if they are read by window.

    `fetched` counts the rows that the server sent, including those that belong to no window.

    Raises E812 for a value that does not fit its column's type.
    """
    schema = schema_of(extract)
    with connection.cursor().copy(f"COPY ({query_of(extract)}) TO STDOUT (FORMAT csv)") as copy:
        for text in _join_rows(copy):
            batch = _parse_batch(text, extract, schema, fetched)
            if batch.num_rows:
                yield batch


def parse_texts(rows: Iterable[Sequence[str | None]], extract: PostgresExtract) -> pa.RecordBatch:
    """Convert rows of texts to an Arrow batch with the types of the requested columns.

    Texts are in the server's format, but arrays are JSON.

    Raises E812 for a value that does not fit its column's type.
    """
    lines = (",".join("" if text is None else f'"{text.replace(_QUOTE, _QUOTES)}"' for text in row) for row in rows)
    return _parse_batch(("\n".join(lines) + "\n").encode(), extract, schema_of(extract), None)


def _join_rows(rows: Iterable[Any]) -> Iterator[bytes]:
    """Join rows into chunks of some megabytes, without splitting a row."""
    chunk, size = [], 0
    for row in rows:
        chunk.append(bytes(row))
        size += len(chunk[-1])
        if size >= _BATCH_BYTES:
            yield b"".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)


def schema_of(extract: PostgresExtract) -> pa.Schema:
    """Return the Arrow schema of the rows: the requested columns, and the label if they are read by window."""
    import pyarrow as pa

    fields = [pa.field(one.taken.name, _arrow_type(one)) for one in extract.wanted]
    if extract.by_window:
        fields.append(pa.field(TIMELABEL, pa.string()))
    return pa.schema(fields)


def _arrow_type(one: PostgresRequestedColumn) -> pa.DataType:
    import pyarrow as pa

    found = ARRAY.fullmatch(one.taken.type.strip())
    return pa.list_(arrow_type(found[1])) if found and one.is_array else arrow_type(one.taken.type)


def _parse_batch(text: bytes, extract: PostgresExtract, schema: pa.Schema, fetched: list[int] | None) -> pa.RecordBatch:
    import pyarrow as pa

    if not extract.wanted and not extract.by_window:
        return pa.RecordBatch.from_arrays([], schema=schema)
    try:
        table = _parse_csv(text, extract, decimals_as_text=False)
    except pa.ArrowInvalid:  # a decimal with more zeros than its type has places, or an error that is reported below
        table = _parse_csv(text, extract, decimals_as_text=True)
    if fetched is not None:
        fetched[0] += table.num_rows
    columns = [table.column(at).combine_chunks() for at in range(table.num_columns)]
    if not extract.by_window:
        arrays = [_convert_column(column, one, extract) for column, one in zip(columns, extract.wanted, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    labels, kept = _labels_of_rows(columns.pop(), extract.by_window, extract.times)
    arrays = [
        _convert_column(column.filter(kept), one, extract) for column, one in zip(columns, extract.wanted, strict=True)
    ]
    return pa.RecordBatch.from_arrays([*arrays, labels.filter(kept)], schema=schema)


def _parse_csv(text: bytes, extract: PostgresExtract, *, decimals_as_text: bool) -> pa.Table:
    """Parse CSV into the types in which Arrow can parse the columns.

    Raises ArrowInvalid for a value that does not fit, or E812 with `decimals_as_text`, the caller's second attempt.
    """
    import pyarrow as pa
    from pyarrow import csv

    kinds = [_parsed_type(one) for one in extract.wanted] + ([pa.int64()] if extract.by_window else [])
    if decimals_as_text:
        kinds = [pa.string() if pa.types.is_decimal(kind) else kind for kind in kinds]
    names = [str(at) for at in range(len(kinds))]
    try:
        return csv.read_csv(
            io.BytesIO(_BOM + text if text.startswith(_BOM) else text),  # Arrow drops a BOM at the start of a text
            read_options=csv.ReadOptions(column_names=names, block_size=len(text) + 4, use_threads=False),
            # a row of one NULL is an empty line
            parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=dict(zip(names, kinds, strict=True)),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["t"],
                false_values=["f"],
            ),
        )
    except pa.ArrowInvalid as error:
        if decimals_as_text:
            raise _parse_error(error, extract) from error
        raise


def _parsed_type(one: PostgresRequestedColumn) -> pa.DataType:
    """Return the type in which Arrow parses a column: that of the table, or one that is converted to it later."""
    import pyarrow as pa

    kind = one.taken.type.strip().lower()
    if one.is_array or kind == "binary":
        return pa.string()
    if kind.startswith("timestamp"):
        is_instant = one.kind == "timestamptz" and kind != "timestamp_ntz"
        return pa.timestamp("us", tz="UTC") if is_instant else _PARSED_TIMES.get(one.kind, pa.string)()
    if kind == "boolean" and one.kind != "bool":
        return pa.string()
    wanted = arrow_type(one.taken.type)
    # Arrow would parse the text 0x10 as 16, and does not parse a whole number with a fraction of zeros
    return pa.string() if pa.types.is_integer(wanted) and one.kind not in _WHOLE else wanted


def _convert_column(values: pa.Array, one: PostgresRequestedColumn, extract: PostgresExtract) -> pa.Array:
    """Convert values that Arrow parsed to the column's type in the table, unless they have it."""
    import pyarrow as pa

    wanted = _arrow_type(one)
    if values.type == wanted:
        return _check_digits(values, one, extract)
    try:
        if pa.types.is_list(wanted):
            items = [None if text is None else json.loads(text) for text in values.to_pylist()]
            if pa.types.is_binary(wanted.value_type) and one.kind == "bytea":
                items = [items_of and [_decode_hex(each) for each in items_of] for items_of in items]
            cut = _first_fraction(items) if pa.types.is_integer(wanted.value_type) else None
            return pa.array(items, wanted) if cut is None else _raise_mismatch(cut)
        if pa.types.is_integer(wanted) or pa.types.is_decimal(wanted):
            return _check_digits(_parse_exactly(values, wanted), one, extract)
        if pa.types.is_binary(wanted) and one.kind == "bytea":
            return pa.array([_decode_hex(text) for text in values.to_pylist()], wanted)
        if pa.types.is_timestamp(wanted) and wanted.tz and pa.types.is_timestamp(values.type):
            return local_column_to_instants(values, extract.times.zone)
        return column(values.to_pylist(), one.taken.type, extract.times)
    except TypeMismatch as mismatch:
        raise _mismatch_error(one, str(mismatch.value), extract) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, OverflowError) as error:
        raise _mismatch_error(one, str(error), extract) from error


def _decode_hex(text: Any) -> Any:
    """Decode bytes from the server's hexadecimal format. NULL and nested lists are returned unchanged."""
    return bytes.fromhex(text[2:]) if isinstance(text, str) else text


def _check_digits(values: pa.Array, one: PostgresRequestedColumn, extract: PostgresExtract) -> pa.Array:
    """Raise E812 for decimals with more digits than their type, else return the values.

    Arrow accepts such decimals, but Spark fails on them.
    """
    import pyarrow as pa

    if pa.types.is_decimal(values.type):
        try:
            values.validate(full=True)
        except pa.ArrowInvalid as error:
            raise _mismatch_error(one, str(error), extract) from error
    return values


def _parse_exactly(texts: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Parse numbers without rounding; only zeros at the end of a fraction are dropped.

    Raises TypeMismatch for the first text that does not fit.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pc.utf8_trim_whitespace(texts)
    for ending, kept in ((r"^(-?[0-9]*)\.0*$", r"\1"), (r"^(-?[0-9]*\.[0-9]*[1-9])0+$", r"\1")):
        numbers = pc.replace_substring_regex(numbers, ending, kept)
    if pa.types.is_integer(wanted):
        strange = texts.filter(pc.invert(pc.match_substring_regex(numbers, r"^-?[0-9]+$")))
        if len(strange):
            raise TypeMismatch(strange[0].as_py())
    try:
        return numbers.cast(wanted)
    except pa.ArrowInvalid:
        raise TypeMismatch(
            next(text for text, one in zip(texts, numbers, strict=True) if _is_uncastable(one, wanted))
        ) from None


def _is_uncastable(number: pa.Scalar, wanted: pa.DataType) -> bool:
    import pyarrow as pa

    try:
        number.cast(wanted)
    except pa.ArrowInvalid:
        return True
    return False


def _raise_mismatch(value: object) -> NoReturn:
    raise TypeMismatch(value)


def _first_fraction(items: Sequence[Any]) -> object | None:
    """Return the first number with a fraction, which Arrow would silently truncate."""
    return next((each for item in items if item for each in item if isinstance(each, float)), None)


def _labels_of_rows(micros: pa.Array, by_window: WindowFilter, times: Times) -> tuple[pa.Array, pa.Array]:
    """Return the label of each row, and whether the row is in any window."""
    import pyarrow as pa

    if by_window.is_number:
        unit = EPOCH_UNITS[times.epoch] // timedelta(microseconds=1)
        instants = micros.to_numpy(zero_copy_only=False).astype("int64") * unit
    elif by_window.kind == "timestamptz":
        instants = micros.to_numpy(zero_copy_only=False).astype("int64")
    else:
        local = local_column_to_instants(micros.cast(pa.timestamp("us")), times.zone)
        instants = local.cast(pa.int64()).to_numpy(zero_copy_only=False).astype("int64")
    return labels_of(instants, by_window.windows)


def _parse_error(error: Exception, extract: PostgresExtract) -> WaterclockError:
    """Build the error for the value that Arrow could not parse, with its column."""
    message = str(error)
    place = re.search(r"In CSV column #(\d+): (.*)", message, re.DOTALL)
    at = int(place[1]) if place else len(extract.wanted)
    if at >= len(extract.wanted):
        return WaterclockError("E812", "a row cannot be read", where=extract.where, why=message)
    value = re.search(r"invalid value '(.*)'|string '(.*?)'", message, re.DOTALL)
    what = (
        next((each for each in value.groups() if each is not None), "") if value else (place[2] if place else message)
    )
    return _mismatch_error(extract.wanted[at], what, extract)


def _mismatch_error(one: PostgresRequestedColumn, value: str, extract: PostgresExtract) -> WaterclockError:
    return type_mismatch_error(one.taken, value, extract.where)
