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
from waterclock.connectors.files.json_records import RECORD, records
from waterclock.connectors.files.lines import LINE, add_line_columns, has_lines, line_source_columns
from waterclock.connectors.files.number_texts import is_number, is_sql_format
from waterclock.connectors.files.python_readers import NUMBER, Reader, read_by_python
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.files.type_errors import PATH, build_raise_sql
from waterclock.connectors.nested_decimals import type_to_read
from waterclock.connectors.row_files import METADATA, show_metadata
from waterclock.flow.declarations import Value
from waterclock.flow.origins import TYPES
from waterclock.spark_sql import ddl_of, decimal_of, literal_path, option_text, quote_name, sql_text
from waterclock.storage.slices.row_filter import UNREAD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_NEAR = frozenset(("float", "real", "double"))
_READ = "_waterclock_read"
_NESTED = ("struct", "array", "map")
_NO_CHARACTER = "\uffff"  # no text contains it


@dataclass(frozen=True, slots=True)
class RawRows:
    """The rows of files as a reader returns them.

    `names` and `types` map each file column to its name and type in the frame. `seen` has the types that the files
    declare. `variants` are the columns that were read with VARIANT in place of STRING, which keeps a number's digits.
    `path`, `row` and `unread` are SQL: the file of a row, its number in that file, and its line if that is not valid in
    the file's format. `within` is the struct that contains the columns, if any. `metadata` is the name of Spark's
    metadata column.
    """

    frame: DataFrame
    names: Mapping[str, str]
    types: Mapping[str, str]
    seen: Mapping[str, str]
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


def raw_rows(asked: ReadRequest) -> RawRows:
    """Read files of one format with the same columns. A broken row raises an error when the frame is evaluated."""
    readers = {
        "parquet": _parquet,
        "csv": _csv,
        "json": _json,
        "xml": _xml,
        "fixed": _fixed_width,
        "avro": _avro,
        "excel": _excel,
    }
    return readers[asked.shape.format](asked)


def _parquet(asked: ReadRequest) -> RawRows:
    from waterclock.storage.rows import map_leaf_types

    said = asked.spark.read.parquet(*asked.escaped_paths).schema
    # a file's metadata may contain column defaults as SQL, which Spark would evaluate
    plain: Any = map_leaf_types(said, lambda leaf: leaf)
    frame = asked.spark.read.schema(plain).parquet(*asked.escaped_paths)
    types = {field.name: field.dataType.simpleString() for field in said}
    frame, file = show_metadata(frame, types)
    path, row = f"{file}.file_path", f"{file}.row_index + 1"
    return RawRows(frame, asked.by_name, types, types, metadata=file, path=path, row=row)


def _csv(asked: ReadRequest) -> RawRows:
    asked = replace(asked, reading=replace(asked.reading, is_multiline=False))
    names = asked.by_position
    types = {
        name: _exact(asked.by_source[name].type, asked.reading) if name in asked.by_source else "STRING"
        for name in names
    }
    if asked.shape.is_by_record:
        return _csv_by_record(asked, names, types)
    ddl = _ddl_of_lines(names, types, asked.reading)
    reader = reader_of(asked.spark, "csv", asked.reading, asked.zone, delimiter=asked.shape.delimiter).schema(ddl)
    raw = RawRows(reader.csv(asked.escaped_paths), names, types, asked.column_types)
    return _with_lines(asked, _with_unread(asked, raw), header=asked.reading.has_header)


def _csv_by_record(asked: ReadRequest, names: Mapping[str, str], types: Mapping[str, str]) -> RawRows:
    """Split files into records in Python workers, and parse each record with Spark's CSV parser."""
    shape = asked.shape
    split = csv_records.reader_of(asked.reading, shape.delimiter, shape.compression)
    frame = read_by_python(asked.spark, asked.paths, split, f"{TEXT} STRING, {IS_OPEN} BOOLEAN")
    reading = replace(asked.reading, keeps_unread=True, encoding="UTF-8")  # a record is already decoded
    options = _options("csv", reading, asked.zone, shape.delimiter) | {"multiLine": True}
    read = _from_text("csv", f"CASE WHEN NOT {IS_OPEN} THEN {TEXT} END", _ddl_of_lines(names, types, reading), options)
    wrong = f"{IS_OPEN} OR {_READ}.{UNREAD} IS NOT NULL"
    mismatch = build_raise_sql(PATH, "a row", TEXT)
    unread = "CAST(NULL AS STRING)"
    if asked.reading.keeps_unread:
        text = ", ".join(f"{quote_name(name)} STRING" for name in (*names.values(), UNREAD))
        is_text = f"{_from_text('csv', TEXT, text, options)}.{UNREAD} IS NULL"
        mismatch = f"CASE WHEN NOT {IS_OPEN} AND {is_text} THEN {build_raise_sql(PATH, 'a value of a row', TEXT)} END"
        unread = f"CASE WHEN {wrong} THEN {TEXT} END"
    rows = frame.selectExpr("*", f"{read} AS {_READ}").selectExpr(
        TEXT,
        IS_OPEN,
        NUMBER,
        PATH,
        f"CASE WHEN {wrong} THEN {mismatch} ELSE {_READ} END AS {_READ}",
        f"{unread} AS {UNREAD}",
    )
    return RawRows(rows, names, types, asked.column_types, path=PATH, row=NUMBER, within=_READ, unread=UNREAD)


def _from_text(format_name: str, text: str, schema: str, options: Mapping[str, Value]) -> str:
    """Return SQL that parses a text (also SQL) in a format as a struct."""
    pairs = ", ".join(f"{sql_text(name)}, {sql_text(option_text(value))}" for name, value in options.items())
    return f"from_{format_name}({text}, {sql_text(schema)}, map({pairs}))"


def _json(asked: ReadRequest) -> RawRows:
    names = asked.by_name

    def documents(ddl: str) -> DataFrame:
        return reader_of(asked.spark, "json", asked.reading, asked.zone).schema(ddl).json(asked.escaped_paths)

    if asked.reading.rows:
        types = {name: _nested_type(asked.by_source.get(name)) for name in names}
        frame = records(
            documents, asked.reading, types, {name: _with_variants(asked, name, types[name]) for name in names}
        )
        return RawRows(frame, names, types, asked.column_types, path=PATH, within=RECORD)
    types = {name: _type_to_read(asked.by_source.get(name)) for name in names}
    read_as = types if asked.reading.is_utf8 else {name: _with_variants(asked, name, types[name]) for name in names}
    read, file = show_metadata(documents(_ddl_of_lines(names, read_as, asked.reading)), names)
    path, variants = f"{file}.file_path", frozenset(name for name in names if read_as[name] != types[name])
    raw = RawRows(read, names, types, asked.column_types, metadata=file, path=path, variants=variants)
    return _with_lines(asked, _with_unread(asked, raw))


def _xml(asked: ReadRequest) -> RawRows:
    names = asked.by_name
    types = {
        found.name: _exact(asked.by_source[found.name].type, asked.reading)
        if found.name in asked.by_source
        else (found.type or "STRING")
        for found in asked.shape.found
    }
    frame = reader_of(asked.spark, "xml", asked.reading, asked.zone).schema(_ddl(names, types)).xml(asked.escaped_paths)
    frame, file = show_metadata(frame, names)
    return RawRows(frame, names, types, asked.column_types, metadata=file, path=f"{file}.file_path")


def _fixed_width(asked: ReadRequest) -> RawRows:
    names = asked.by_position
    types = dict.fromkeys(names, "STRING")
    lines = asked.spark.read.text(asked.escaped_paths)
    if not (asked.has_rows and has_lines(asked.reading)):
        placed = lines.selectExpr("value", f"{METADATA}.file_path AS {PATH}")
        return RawRows(fields(placed, asked.reading), names, types, asked.column_types, path=PATH)
    numbered = add_line_columns(
        asked.spark, lines.selectExpr("value", *line_source_columns()), asked.escaped_paths, skips=False
    )
    return RawRows(fields(numbered, asked.reading), names, types, asked.column_types, path=PATH, row=LINE)


def _with_lines(asked: ReadRequest, raw: RawRows, *, header: bool = False) -> RawRows:
    """Add the line number of each row, if it is requested and lines can be counted."""
    if not (asked.has_rows and has_lines(asked.reading)):
        return raw
    rows = raw.frame.selectExpr("*", *line_source_columns(raw.metadata))
    numbered = add_line_columns(asked.spark, rows, asked.escaped_paths, skips=True, header=header)
    return replace(raw, frame=numbered, path=PATH, row=LINE, unread=raw.unread.replace(raw.path, PATH))


def _with_unread(asked: ReadRequest, raw: RawRows) -> RawRows:
    """Fill `unread` with lines that are invalid in their format, and raise an error for type mismatches in valid lines.

    Spark's reader returns the line in both cases. To distinguish them, such lines, and only these, are parsed again
    with all columns as text.
    """
    if not asked.reading.keeps_unread:
        return raw
    options = _options(asked.shape.format, asked.reading, "UTC", asked.shape.delimiter)
    schema = ", ".join(f"{quote_name(name)} STRING" for name in (*raw.names.values(), UNREAD))
    as_text = _from_text(asked.shape.format, UNREAD, schema, options)
    return replace(
        raw,
        unread=f"CASE WHEN {UNREAD} IS NOT NULL THEN CASE WHEN {as_text}.{UNREAD} IS NOT NULL THEN {UNREAD} "
        f"ELSE {build_raise_sql(raw.path, 'a value of a row', UNREAD)} END END",
    )


def _avro(asked: ReadRequest) -> RawRows:
    return _by_python(asked, avro_reading.reader_of(asked.shape.found))


def _excel(asked: ReadRequest) -> RawRows:
    names = tuple(found.name for found in asked.shape.found)
    near = {name for name, taken in asked.by_source.items() if taken.type.lower() in _NEAR}
    return _by_python(asked, excel_reading.reader_of(asked.reading, names, near))


def _by_python(asked: ReadRequest, read: Reader) -> RawRows:
    frame = read_by_python(asked.spark, asked.paths, read, _ddl(asked.by_position, asked.column_types))
    return RawRows(frame, asked.by_position, asked.column_types, asked.column_types, path=PATH, row=NUMBER)


def reader_of(
    spark: SparkSession, format_name: str, reading: ReadOptions, zone: str, *, delimiter: str = ","
) -> DataFrameReader:
    """Return Spark's reader for a format, configured with the options of a COLLECT.

    It fails for a row that it cannot parse, or returns its line in `UNREAD` if `reading.keeps_unread`.
    """
    return spark.read.options(**_options(format_name, reading, zone, delimiter))


def _options(format_name: str, reading: ReadOptions, zone: str, delimiter: str) -> dict[str, Value]:
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


def _with_variants(asked: ReadRequest, name: str, kind: str) -> str:
    """Return the type to read a column as, with VARIANT in place of STRING for numbers, to keep their digits."""
    return "VARIANT" if kind == "STRING" else type_to_read(asked.by_source[name].type, "VARIANT")


def _exact(type_text: str, reading: ReadOptions) -> str:
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
