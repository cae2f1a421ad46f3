"""Reads files with the same columns into a frame, whose columns are not converted to their declared types yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from waterclock.connectors.column_matching import CollectedColumn, map_column_types
from waterclock.connectors.files import avro_reading, csv_records, excel_reading
from waterclock.connectors.files.csv_records import IS_OPEN, TEXT
from waterclock.connectors.files.file_schemas import FileShape
from waterclock.connectors.files.fixed_width import fields
from waterclock.connectors.files.json_records import RECORD, extract_records
from waterclock.connectors.files.line_numbers import LINE, add_line_columns, has_lines, line_source_columns
from waterclock.connectors.files.number_texts import is_number, is_sql_format
from waterclock.connectors.files.python_readers import NUMBER, Reader, read_by_python
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.files.type_errors import PATH, build_raise_sql
from waterclock.connectors.nested_decimals import type_to_read
from waterclock.connectors.spark_file_metadata import METADATA, show_metadata
from waterclock.flow.declarations import Value
from waterclock.flow.origins import TYPES
from waterclock.spark_sql import ddl_of, decimal_of, literal_path, option_text, quote_name, sql_text
from waterclock.storage.slices.row_filter import UNREAD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_APPROXIMATE_TYPES = frozenset(("float", "real", "double"))
_PARSED = "_waterclock_read"
_NESTED = ("struct", "array", "map")
_NO_CHARACTER = "\uffff"  # no text contains it


@dataclass(frozen=True, slots=True)
class RawRows:
    """The rows of files as a reader returns them.

    `names` and `types` map each file column to its name and type in the frame. `file_types` has the types that the
    files declare. `variants` are the columns that were read with VARIANT in place of STRING, which keeps a number's
    digits. `path`, `row` and `unread` are SQL: the file of a row, its number in that file, and its line if that is not
    valid in the file's format. `within` is the struct that contains the columns, if any. `metadata` is the name of
    Spark's metadata column.
    """

    frame: DataFrame
    names: Mapping[str, str]
    types: Mapping[str, str]
    file_types: Mapping[str, str]
    metadata: str = METADATA
    path: str = f"{METADATA}.file_path"
    row: str = f"CAST(NULL AS {TYPES['row']})"
    within: str = ""
    variants: frozenset[str] = frozenset()
    unread: str = "CAST(NULL AS STRING)"

    def value_of(self, source: str) -> str:
        """Return the SQL of a file column: a column of the frame, or a field of its struct `within`."""
        if source in self.variants:
            return f"CAST({quote_name(self.names[source])} AS {self.types[source]})"
        return f"{self.within}.{quote_name(self.names[source])}" if self.within else quote_name(self.names[source])


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A request to read files of one `FileShape`. `by_source` has the columns to read, by their names in the files."""

    spark: SparkSession
    shape: FileShape
    paths: Sequence[str]
    reading: ReadOptions
    by_source: Mapping[str, CollectedColumn]
    zone: str
    has_rows: bool

    @property
    def escaped_paths(self) -> list[str]:
        """The paths in the form that Spark expects."""
        return escape_paths(self.paths)

    @property
    def column_types(self) -> Mapping[str, str]:
        """The types that the files declare for their columns."""
        return map_column_types(self.shape.found)

    @property
    def by_position(self) -> Mapping[str, str]:
        """Maps the columns of the files to their names in a frame that is read by position, such as `c0`.

        Two columns of a file may have the same name.
        """
        return {found.name: f"c{at}" for at, found in enumerate(self.shape.found)}

    @property
    def by_name(self) -> Mapping[str, str]:
        """Maps the columns of the files to their names in a frame that is read by name, which are the same."""
        return {found.name: found.name for found in self.shape.found}


def raw_rows(request: ReadRequest) -> RawRows:
    """Read files of one format with the same columns. A broken row raises an error when the frame is evaluated."""
    readers = {
        "parquet": _read_parquet,
        "csv": _read_csv,
        "json": _read_json,
        "xml": _read_xml,
        "fixed": _read_fixed_width,
        "avro": _read_avro,
        "excel": _read_excel,
    }
    return readers[request.shape.format](request)


def _read_parquet(request: ReadRequest) -> RawRows:
    from waterclock.storage.fetched_rows import map_leaf_types

    schema = request.spark.read.parquet(*request.escaped_paths).schema
    # a file's metadata may contain column defaults as SQL, which Spark would evaluate
    plain: Any = map_leaf_types(schema, lambda leaf: leaf)
    frame = request.spark.read.schema(plain).parquet(*request.escaped_paths)
    types = {field.name: field.dataType.simpleString() for field in schema}
    frame, file = show_metadata(frame, types)
    path, row = f"{file}.file_path", f"{file}.row_index + 1"
    return RawRows(frame, request.by_name, types, types, metadata=file, path=path, row=row)


def _read_csv(request: ReadRequest) -> RawRows:
    request = replace(request, reading=replace(request.reading, is_multiline=False))
    names = request.by_position
    types = {
        name: _exact_type(request.by_source[name].type, request.reading) if name in request.by_source else "STRING"
        for name in names
    }
    if request.shape.is_by_record:
        return _read_csv_by_record(request, names, types)
    ddl = _ddl_of_lines(names, types, request.reading)
    reader = reader_of(request.spark, "csv", request.reading, request.zone, delimiter=request.shape.delimiter).schema(
        ddl
    )
    raw = RawRows(reader.csv(request.escaped_paths), names, types, request.column_types)
    return _add_lines(request, _add_unread(request, raw), header=request.reading.has_header)


def _read_csv_by_record(request: ReadRequest, names: Mapping[str, str], types: Mapping[str, str]) -> RawRows:
    """Split files into records in Python workers, and parse each record with Spark's CSV parser."""
    shape = request.shape
    split = csv_records.reader_of(request.reading, shape.delimiter, shape.compression)
    frame = read_by_python(request.spark, request.paths, split, f"{TEXT} STRING, {IS_OPEN} BOOLEAN")
    reading = replace(request.reading, keeps_unread=True, encoding="UTF-8")  # a record is already decoded
    options = _reader_options("csv", reading, request.zone, shape.delimiter) | {"multiLine": True}
    read = _parse_text_sql(
        "csv", f"CASE WHEN NOT {IS_OPEN} THEN {TEXT} END", _ddl_of_lines(names, types, reading), options
    )
    wrong = f"{IS_OPEN} OR {_PARSED}.{UNREAD} IS NOT NULL"
    mismatch = build_raise_sql(PATH, "a row", TEXT)
    unread = "CAST(NULL AS STRING)"
    if request.reading.keeps_unread:
        text = ", ".join(f"{quote_name(name)} STRING" for name in (*names.values(), UNREAD))
        is_text = f"{_parse_text_sql('csv', TEXT, text, options)}.{UNREAD} IS NULL"
        mismatch = f"CASE WHEN NOT {IS_OPEN} AND {is_text} THEN {build_raise_sql(PATH, 'a value of a row', TEXT)} END"
        unread = f"CASE WHEN {wrong} THEN {TEXT} END"
    rows = frame.selectExpr("*", f"{read} AS {_PARSED}").selectExpr(
        TEXT,
        IS_OPEN,
        NUMBER,
        PATH,
        f"CASE WHEN {wrong} THEN {mismatch} ELSE {_PARSED} END AS {_PARSED}",
        f"{unread} AS {UNREAD}",
    )
    return RawRows(rows, names, types, request.column_types, path=PATH, row=NUMBER, within=_PARSED, unread=UNREAD)


def _parse_text_sql(format_name: str, text: str, schema: str, options: Mapping[str, Value]) -> str:
    """Return SQL that parses a text (also SQL) in a format as a struct."""
    pairs = ", ".join(f"{sql_text(name)}, {sql_text(option_text(value))}" for name, value in options.items())
    return f"from_{format_name}({text}, {sql_text(schema)}, map({pairs}))"


def _read_json(request: ReadRequest) -> RawRows:
    names = request.by_name

    def documents(ddl: str) -> DataFrame:
        return reader_of(request.spark, "json", request.reading, request.zone).schema(ddl).json(request.escaped_paths)

    if request.reading.rows:
        types = {name: _nested_type(request.by_source.get(name)) for name in names}
        frame = extract_records(
            documents, request.reading, types, {name: _variant_type(request, name, types[name]) for name in names}
        )
        return RawRows(frame, names, types, request.column_types, path=PATH, within=RECORD)
    types = {name: _type_to_read(request.by_source.get(name)) for name in names}
    read_as = types if request.reading.is_utf8 else {name: _variant_type(request, name, types[name]) for name in names}
    read, file = show_metadata(documents(_ddl_of_lines(names, read_as, request.reading)), names)
    path, variants = f"{file}.file_path", frozenset(name for name in names if read_as[name] != types[name])
    raw = RawRows(read, names, types, request.column_types, metadata=file, path=path, variants=variants)
    return _add_lines(request, _add_unread(request, raw))


def _read_xml(request: ReadRequest) -> RawRows:
    names = request.by_name
    types = {
        found.name: _exact_type(request.by_source[found.name].type, request.reading)
        if found.name in request.by_source
        else (found.type or "STRING")
        for found in request.shape.found
    }
    frame = (
        reader_of(request.spark, "xml", request.reading, request.zone)
        .schema(_ddl(names, types))
        .xml(request.escaped_paths)
    )
    frame, file = show_metadata(frame, names)
    return RawRows(frame, names, types, request.column_types, metadata=file, path=f"{file}.file_path")


def _read_fixed_width(request: ReadRequest) -> RawRows:
    names = request.by_position
    types = dict.fromkeys(names, "STRING")
    lines = request.spark.read.text(request.escaped_paths)
    if not (request.has_rows and has_lines(request.reading)):
        placed = lines.selectExpr("value", f"{METADATA}.file_path AS {PATH}")
        return RawRows(fields(placed, request.reading), names, types, request.column_types, path=PATH)
    numbered = add_line_columns(
        request.spark, lines.selectExpr("value", *line_source_columns()), request.escaped_paths, skips=False
    )
    return RawRows(fields(numbered, request.reading), names, types, request.column_types, path=PATH, row=LINE)


def _add_lines(request: ReadRequest, raw: RawRows, *, header: bool = False) -> RawRows:
    """Add the line number of each row, if it is requested and lines can be counted."""
    if not (request.has_rows and has_lines(request.reading)):
        return raw
    rows = raw.frame.selectExpr("*", *line_source_columns(raw.metadata))
    numbered = add_line_columns(request.spark, rows, request.escaped_paths, skips=True, header=header)
    return replace(raw, frame=numbered, path=PATH, row=LINE, unread=raw.unread.replace(raw.path, PATH))


def _add_unread(request: ReadRequest, raw: RawRows) -> RawRows:
    """Fill `unread` with lines that are invalid in their format, and raise an error for type mismatches in valid lines.

    Spark's reader returns the line in both cases. To distinguish them, such lines, and only these, are parsed again
    with all columns as text.
    """
    if not request.reading.keeps_unread:
        return raw
    options = _reader_options(request.shape.format, request.reading, "UTC", request.shape.delimiter)
    schema = ", ".join(f"{quote_name(name)} STRING" for name in (*raw.names.values(), UNREAD))
    as_text = _parse_text_sql(request.shape.format, UNREAD, schema, options)
    return replace(
        raw,
        unread=f"CASE WHEN {UNREAD} IS NOT NULL THEN CASE WHEN {as_text}.{UNREAD} IS NOT NULL THEN {UNREAD} "
        f"ELSE {build_raise_sql(raw.path, 'a value of a row', UNREAD)} END END",
    )


def _read_avro(request: ReadRequest) -> RawRows:
    return _read_with_python(request, avro_reading.reader_of(request.shape.found))


def _read_excel(request: ReadRequest) -> RawRows:
    names = tuple(found.name for found in request.shape.found)
    near = {name for name, taken in request.by_source.items() if taken.type.lower() in _APPROXIMATE_TYPES}
    return _read_with_python(request, excel_reading.reader_of(request.reading, names, near))


def _read_with_python(request: ReadRequest, read: Reader) -> RawRows:
    frame = read_by_python(request.spark, request.paths, read, _ddl(request.by_position, request.column_types))
    return RawRows(frame, request.by_position, request.column_types, request.column_types, path=PATH, row=NUMBER)


def reader_of(
    spark: SparkSession, format_name: str, reading: ReadOptions, zone: str, *, delimiter: str = ","
) -> DataFrameReader:
    """Return Spark's reader for a format, configured with the options of a COLLECT.

    It fails for a row that it cannot parse, or returns its line in `UNREAD` if `reading.keeps_unread`.
    """
    return spark.read.options(**_reader_options(format_name, reading, zone, delimiter))


def _reader_options(format_name: str, reading: ReadOptions, zone: str, delimiter: str) -> dict[str, Value]:
    is_whole = reading.is_multiline
    keeps_unread = reading.keeps_unread and format_name in {"csv", "json"} and not reading.rows
    options: dict[str, Value | None] = {
        "mode": "PERMISSIVE" if keeps_unread else "FAILFAST",
        "columnNameOfCorruptRecord": UNREAD if keeps_unread else None,
        "columnPruning": False,
        # with an encoding, Spark converts JSON numbers to text by way of a double, which loses digits (a VARIANT keeps
        # them); without one it keeps the original characters. For a whole document it detects the Unicode encoding
        # itself, and skips its byte order mark
        "encoding": None if format_name == "json" and reading.is_utf8 else reading.encoding,
        # without a lineSep, Spark refuses lines of JSON if an encoding is set
        "lineSep": None if format_name != "json" or reading.is_utf8 or is_whole else "\n",
        "timeZone": zone,
        "multiLine": is_whole if format_name != "xml" else None,  # with any value, Spark ignores rowTag
        "timestampFormat": reading.timestamp_format,
        "dateFormat": reading.date_format,
    }
    if format_name == "csv":
        options |= {
            "header": reading.has_header,
            "sep": delimiter,
            **_quote_options(reading),
            "nullValue": reading.null,
        }
    if format_name == "xml":
        options |= {
            "rowTag": reading.rows[-1],
            "nullValue": reading.null,
            "ignoreNamespace": True,
            "inferSchema": False,
        }
    return {name: value for name, value in options.items() if value is not None}


def _quote_options(reading: ReadOptions) -> dict[str, Value]:
    """Return Spark's options for quotes. Unset ones would be NUL, and Spark would remove that character from texts."""
    quote = reading.quote or _NO_CHARACTER
    escape = reading.escape if reading.quote and reading.escape else quote
    return {"quote": quote, "escape": escape, "charToEscapeQuoteEscaping": escape}


def escape_paths(paths: Sequence[str]) -> list[str]:
    """Return paths in the form that Spark expects: with wildcard characters escaped."""
    return [literal_path(path) for path in paths]


def _ddl(names: Mapping[str, str], types: Mapping[str, str]) -> str:
    return ddl_of((names[name], types[name]) for name in names)


def _ddl_of_lines(names: Mapping[str, str], types: Mapping[str, str], reading: ReadOptions) -> str:
    line = [f"{UNREAD} STRING"] if reading.keeps_unread else []
    return ", ".join([_ddl(names, types), *line] if names else line)


def _type_to_read(taken: CollectedColumn | None) -> str:
    """Return the type for Spark's JSON reader: text for numbers, because a JSON number may be in quotes.

    Base64 bytes are read as text too, so that invalid base64 is a type mismatch and not a broken line.
    """
    if taken is None or is_number(taken.type) or taken.type.lower() == "binary":
        return "STRING"
    return type_to_read(taken.type)


def _variant_type(request: ReadRequest, name: str, kind: str) -> str:
    """Return the type to read a column as, with VARIANT in place of STRING for numbers, to keep their digits."""
    return "VARIANT" if kind == "STRING" else type_to_read(request.by_source[name].type, "VARIANT")


def _exact_type(type_text: str, reading: ReadOptions) -> str:
    """Return the type in which Spark's reader reads a column: STRING if it would not read the declared type exactly.

    It would round a DECIMAL and parse 7,125 as 7125. For BINARY it would return the bytes of the text instead of
    decoding it. It supports only one number format.
    """
    is_text = decimal_of(type_text) is not None or type_text.upper() == "BINARY"
    is_text = is_text or (is_number(type_text) and not is_sql_format(reading))
    return "STRING" if is_text else type_to_read(type_text)


def _nested_type(taken: CollectedColumn | None) -> str:
    """Return the type in which a record's field is read: STRING, except for nested types."""
    return type_to_read(taken.type) if taken is not None and taken.type.lower().startswith(_NESTED) else "STRING"
