"""Writes the rows of a slice to a file, from Arrow batches and in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from waterclock.connectors.arrow_values import is_plain
from waterclock.connectors.files.reading_options import wrong_sign
from waterclock.connectors.slice_rows import base64_text, stored_type, to_json_text, to_portable_types
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import open_for_writing
from waterclock.flow.capabilities import InvalidOption

if TYPE_CHECKING:
    import pyarrow as pa

_SUFFIX = {"none": "", "gzip": ".gz", "bz2": ".bz2", "zstd": ".zst"}
ENDINGS = {
    **{(kind, name): f"{kind}{suffix}" for kind in ("csv", "json") for name, suffix in _SUFFIX.items()},
    **{("parquet", name): "parquet" for name in ("none", "gzip", "zstd")},
    **{("avro", name): "avro" for name in ("none", "gzip")},
    ("excel", "none"): "xlsx",
}
FORMULA = re.compile("[=+@\t\r\n'\uff1d\uff0b\uff0d\uff20-]")
"""Matches the first character of a text that a spreadsheet would treat as a formula, or an apostrophe."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options for writing a file.

    `has_timelabel`: a file with one label's rows has the label as its last column. `escapes_formulas`: texts that a
    spreadsheet would treat as formulas are prefixed with an apostrophe.
    """

    format: str = "csv"
    compression: str = "none"
    has_header: bool = True
    delimiter: str = ","
    has_timelabel: bool = True
    escapes_formulas: bool = False

    def __post_init__(self) -> None:
        if (self.format, self.compression) not in ENDINGS:
            raise WaterclockError(
                "E809",
                f"{self.format} files cannot have compression {self.compression}",
                why=f"there are {', '.join(' + '.join(pair) for pair in ENDINGS)}",
                fix="choose one of these: OPTIONS (format '…', compression '…')",
            )


def write_file(
    path: Path, batches: Iterator[pa.RecordBatch], columns: Sequence[tuple[str, str]], writing: WriteOptions
) -> int:
    """Write a file, overwriting an existing one, and flush it to the disk. Return the number of rows.

    CSV and JSON contain instants in UTC with a Z, and bytes as base64; CSV contains nested values as JSON. NULL is an
    empty field in CSV, and `""` in a CSV file with one column.
    """
    write = _WRITERS[writing.format]
    with open_for_writing(path) as file:
        return write(file, batches, columns, writing)


def _write_parquet(
    file: IO[bytes], batches: Iterator[pa.RecordBatch], columns: Sequence[tuple[str, str]], writing: WriteOptions
) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = next(batches, None)
    schema = first.schema if first is not None else _arrow_schema(columns)
    rows = 0
    with pq.ParquetWriter(file, schema, compression=writing.compression) as writer:
        for batch in chain([first] if first is not None else [], batches):
            writer.write_batch(batch)
            rows += batch.num_rows
        if first is None:
            writer.write_table(pa.Table.from_batches([], schema))
    return rows


def _write_avro(
    file: IO[bytes], batches: Iterator[pa.RecordBatch], columns: Sequence[tuple[str, str]], writing: WriteOptions
) -> int:
    from waterclock.connectors.files.avro_writing import write_avro

    first = next(batches, None)
    schema = first.schema if first is not None else _arrow_schema(columns)
    codec = "null" if writing.compression == "none" else "deflate"
    return write_avro(file, schema, chain([first] if first is not None else [], batches), codec)


def _write_excel(
    file: IO[bytes], batches: Iterator[pa.RecordBatch], columns: Sequence[tuple[str, str]], writing: WriteOptions
) -> int:
    from waterclock.connectors.files.excel_writing import write_workbook

    return write_workbook(file, [name for name, _ in columns], batches, has_header=writing.has_header)


def _write_csv(
    file: IO[bytes], batches: Iterator[pa.RecordBatch], columns: Sequence[tuple[str, str]], writing: WriteOptions
) -> int:
    import pyarrow as pa
    import pyarrow.csv as pc

    rows = 0
    names = [name for name, _ in columns]
    options = pc.WriteOptions(include_header=False, delimiter=writing.delimiter, quoting_style="needed")
    with _open_compressed(file, writing) as sink:
        if writing.has_header:
            header_names = [f"'{name}" if writing.escapes_formulas and FORMULA.match(name) else name for name in names]
            sink.write(
                (writing.delimiter.join(_quote_csv_name(name, writing) for name in header_names) + "\n").encode()
            )
        for batch in batches:
            texts = [_column_text(column, kind) for column, (_, kind) in zip(batch.columns, columns, strict=True)]
            if writing.escapes_formulas:
                texts = [_escape_formulas(text, column) for text, column in zip(texts, batch.columns, strict=True)]
            if len(texts) == 1:
                texts = [_fill_nulls(texts[0])]
            pc.write_csv(pa.RecordBatch.from_arrays(texts, names=names), sink, options)
            rows += batch.num_rows
    return rows


def _write_json(
    file: IO[bytes], batches: Iterator[pa.RecordBatch], columns: Sequence[tuple[str, str]], writing: WriteOptions
) -> int:
    rows = 0
    names = [name for name, _ in columns]
    with _open_compressed(file, writing) as sink:
        for batch in batches:
            lists = [
                (_column_text(column, kind) if is_plain(kind) else column).to_pylist(maps_as_pydicts="lossy")
                for column, (_, kind) in zip(batch.columns, columns, strict=True)
            ]
            rows_of_batch = (to_json_text(dict(zip(names, row, strict=True))) for row in zip(*lists, strict=True))
            sink.write("".join(f"{text}\n" for text in rows_of_batch).encode())
            rows += batch.num_rows
    return rows


def _open_compressed(file: IO[bytes], writing: WriteOptions) -> Any:
    import pyarrow as pa

    plain = pa.PythonFile(file, mode="w")
    return plain if writing.compression == "none" else pa.CompressedOutputStream(plain, writing.compression)


def _quote_csv_name(name: str, writing: WriteOptions) -> str:
    is_special = any(sign in name for sign in (writing.delimiter, '"', "\n"))
    return '"' + name.replace('"', '""') + '"' if is_special else name


def _column_text(column: pa.Array, kind: str) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_binary(column.type):
        return pa.array([None if value is None else base64_text(value) for value in column.to_pylist()], pa.string())
    return to_portable_types(column, kind, mark="Z")


def _fill_nulls(text: pa.Array) -> pa.Array:
    """Replace NULL by an empty text, which is written as `""`. NULL would be a blank line, which readers skip."""
    import pyarrow as pa

    return text.cast(pa.string()).fill_null("") if text.null_count else text


def _escape_formulas(text: pa.Array, column: pa.Array) -> pa.Array:
    """Put an apostrophe before texts that a spreadsheet would treat as formulas, or that begin with an apostrophe.

    So removing one apostrophe restores the text. Numbers and times are not changed: `-5` remains a number.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    def is_text(kind: pa.DataType) -> bool:
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

    if not is_text(text.type) or not (is_text(column.type) or pa.types.is_nested(column.type)):
        return text
    return pc.replace_substring_regex(text, f"^({FORMULA.pattern})", r"'\1")


def _arrow_schema(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(name, stored_type(kind)) for name, kind in columns])


_WRITERS = {
    "csv": _write_csv,
    "json": _write_json,
    "parquet": _write_parquet,
    "avro": _write_avro,
    "excel": _write_excel,
}


def find_write_option_errors(options: Mapping[str, Any]) -> Iterator[InvalidOption]:
    """Yield errors in the options of a PUBLISH into files.

    Errors are an invalid delimiter, a compression or option that the format does not support, other options beside
    `format 'raw'`, which copies files unchanged, and `keep` without it.
    """
    if options.get("format") == "raw":
        for name in sorted(options.keys() - {"format", "keep"}):
            why = "the files are byte-for-byte copies of the collected ones"
            yield InvalidOption("E334", name, f"{name} is set with format 'raw'", why, f"leave {name} out")
        return
    sign = str(options.get("delimiter", ","))
    if len(sign) != 1 or not sign.isascii() or sign in '"\r\n':
        yield wrong_sign("delimiter", sign, "it must be one ASCII character, and no quote or line break")
    if "formulas" in options and options.get("format", "csv") != "csv":
        why = f"the format is {options['format']}, which distinguishes texts from formulas"
        yield InvalidOption("E334", "formulas", "formulas is set without format 'csv'", why, "leave formulas out")
    if "keep" in options:
        why = "keep applies to copied files, and these files are newly written"
        yield InvalidOption(
            "E334", "keep", "keep is set without format 'raw'", why, "set format 'raw', of a table collected with it"
        )
    format_name, compression = str(options.get("format", "csv")), str(options.get("compression", "none"))
    known = [pair for name, pair in ENDINGS if name == format_name]
    if known and compression not in known:
        yield InvalidOption(
            "E337",
            "compression",
            f"{format_name} files cannot have compression {compression}",
            f"{format_name} supports {', '.join(known)}",
            "choose one of these compressions, or another format",
        )
