"""Reads many files into one frame with the declared columns.

A column is text unless it has a declared type. A malformed row raises an error: Spark reads with FAILFAST and without
column pruning, because with pruning it detects a row with too few fields only if the missing columns are requested. If
EXPECT parsed() declares how malformed rows are handled, Spark reads with PERMISSIVE, and returns the line of such a row
in `UNREAD`. All expressions are passed to the JVM as SQL text in one call: for small files, separate calls would cost
more than the scan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.connectors.column_matching import CollectedColumn, ColumnMatch, match
from waterclock.connectors.files.file_schemas import FileShape, shapes_of
from waterclock.connectors.files.json_records import RECORD, WHOLE, extract_records
from waterclock.connectors.files.multiline_csv import read_by_record
from waterclock.connectors.files.number_texts import is_number, normalize_number_sql
from waterclock.connectors.files.own_copies import name_as_landed
from waterclock.connectors.files.raw_rows import RawRows, ReadRequest, escape_paths, raw_rows, reader_of
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.files.source_file_columns import map_by_file
from waterclock.connectors.files.type_errors import build_raise_sql
from waterclock.connectors.files.zips import restore_file_keys, unpack_zips
from waterclock.connectors.interface import do_nothing
from waterclock.connectors.nested_decimals import narrow_value, type_to_read
from waterclock.connectors.windowing import FILE_KEY, TIME, file_key_sql, instant_sql
from waterclock.errors import WaterclockError, note_inputs
from waterclock.flow.checks import keeps_unread
from waterclock.flow.compatibility import wider_type
from waterclock.flow.declarations import Columns
from waterclock.flow.origins import IN_ROWS
from waterclock.spark_sql import cast_text, decimal_of, quote_name, sql_text
from waterclock.storage.slices.row_filter import UNREAD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROW = IN_ROWS["row"]
_LITERAL = re.compile("'[^']*'")
_OPTIONAL = re.compile(r"\[((?:'[^']*'|[^\[\]'])*)\]")
_ZONE_LETTERS = frozenset("VzOXxZ")  # of Spark's patterns
_WHOLE = frozenset("tinyint byte smallint short int integer bigint long".split())


@dataclass(frozen=True, slots=True)
class ScannedFiles:
    """The frame with the rows of all files, and facts about the files.

    The frame has the column `FILE_KEY`, which identifies each row's file, and, if requested, `TIME`, the data time.
    Both cost nothing if they are not used. `UNREAD` has lines that cannot be parsed, if they are kept. `left_out` are
    columns of the files that the column list does not name. `file_groups` are groups of files with their columns and
    types. `close` removes the files that were unpacked for the scan.
    """

    frame: DataFrame
    left_out: tuple[str, ...]
    file_groups: tuple[tuple[Mapping[str, str], Sequence[str]], ...] = ()
    close: Callable[[], None] = do_nothing

    def merge_column_types(self, paths: AbstractSet[str] | None = None) -> dict[str, str]:
        """Return the columns of the files `paths`, or of all files, each with a type that fits its values in all."""
        together: dict[str, str] = {}
        for columns, members in self.file_groups:
            if paths is None or not paths.isdisjoint(members):
                together |= {name: wider_type(together.get(name, kind), kind) for name, kind in columns.items()}
        return together


def scan(  # noqa: PLR0913 - each is an independent input
    spark: SparkSession,
    paths: Sequence[str],
    reading: ReadOptions,
    columns: Columns,
    zone: str,
    *,
    time: str | None = None,
    stamps: Mapping[str, datetime] | None = None,
    has_rows: bool = False,
) -> ScannedFiles:
    """Read files into one frame: the requested columns, `FILE_KEY`, and `TIME` if `time` names the data time's column.

    `stamps` maps the files to their stamps: a line that cannot be parsed gets its file's stamp as data time.
    `has_rows`: the frame also has each row's number in its file, from 1. This is the first line of a record of text or
    the row of a sheet; NULL if it is unknown, as for whole documents.

    Raises E805 and E808 from `column_matching.match`, which name the file; E807 and E809 from `file_schemas.shapes_of`;
    E881 to E883 from `zips.unpack_zips`.
    Cost: the header of each file is read; Spark infers a schema for Parquet, and for the keys of large JSON.
    """
    reading = replace(reading, keeps_unread=keeps_unread(columns))
    found = unpack_zips(paths, reading)
    try:
        scanned = _scan_files(spark, found.paths, reading, columns, zone, time=time, has_rows=has_rows)
        frame = restore_file_keys(spark, scanned.frame, found)
        if time and stamps and reading.keeps_unread:
            frame = _set_stamp_times(spark, frame, stamps)
    except BaseException as error:
        found.close()
        if isinstance(error, WaterclockError):
            name_as_landed(error, reading)
        else:
            note_inputs(error, (Path(path).name for path in paths))
        raise
    file_groups = tuple(
        (kinds, [found.zips.get(path, path) for path in members]) for kinds, members in scanned.file_groups
    )
    return ScannedFiles(frame, scanned.left_out, file_groups, found.close)


def _scan_files(
    spark: SparkSession,
    paths: Sequence[str],
    reading: ReadOptions,
    columns: Columns,
    zone: str,
    *,
    time: str | None,
    has_rows: bool,
) -> ScannedFiles:
    shapes = shapes_of(
        paths,
        reading,
        columns,
        keys_of_many=partial(_infer_columns, spark, reading),
        by_record=partial(read_by_record, spark, reading),
    )
    frames: list[DataFrame] = []
    file_groups: list[tuple[Mapping[str, str], Sequence[str]]] = []
    left_out: dict[str, None] = {}
    order: dict[str, None] = {}
    for shape, members in shapes.items():
        matched = match(columns, shape.found, where=members[0])
        left_out.update(dict.fromkeys(matched.left_out))
        order.update(dict.fromkeys(taken.name for taken in matched.taken))
        read, types = _scan_shape(spark, shape, members, reading, matched, zone, time, has_rows=has_rows)
        frames.append(read)
        file_groups.append((types if shape.is_whole else {}, members))
    frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    if len(frames) > 1:
        unread = [UNREAD] if reading.keeps_unread else []
        extra = [FILE_KEY, *unread, *([TIME] if time else []), *([_ROW] if has_rows else [])]
        frame = frame.select(*(quote_name(name) for name in (*order, *extra)))
    return ScannedFiles(frame, tuple(name for name in left_out if name not in order), tuple(file_groups))


def _set_stamp_times(spark: SparkSession, frame: DataFrame, stamps: Mapping[str, datetime]) -> DataFrame:
    names = [quote_name(name) for name in frame.columns if name != TIME]
    frame, stamp_sql = map_by_file(spark, frame, {path: stamp.isoformat() for path, stamp in stamps.items()})
    return frame.selectExpr(
        *names, f"CASE WHEN {UNREAD} IS NULL THEN {TIME} ELSE CAST({stamp_sql} AS TIMESTAMP) END AS {TIME}"
    )


def _infer_columns(
    spark: SparkSession, reading: ReadOptions, format_name: str, paths: Sequence[str]
) -> Mapping[str, str]:
    """Return the columns that Spark infers from JSON or XML files: as STRING, and as lists for repeated elements."""
    reader = reader_of(spark, format_name, reading, "UTC")
    if format_name == "xml":
        kinds = {field.name: field.dataType.simpleString() for field in reader.xml(escape_paths(paths)).schema}
        return {name: "ARRAY<STRING>" if kind.startswith("array<") else "STRING" for name, kind in kinds.items()}
    if not reading.rows:
        inferred = reader.options(primitivesAsString=True).json(escape_paths(paths)).columns
        return {key: "STRING" for key in inferred if key != UNREAD}  # Spark adds UNREAD for a malformed line
    read = extract_records(lambda ddl: reader.schema(ddl).json(escape_paths(paths)), reading, {WHOLE: "STRING"}, {})
    keys = read.selectExpr(f"explode({RECORD}.{WHOLE}) AS key").distinct().collect()
    return dict.fromkeys((row["key"] for row in keys), "STRING")


def _scan_shape(  # noqa: PLR0913 - each is an independent input
    spark: SparkSession,
    shape: FileShape,
    paths: Sequence[str],
    reading: ReadOptions,
    matched: ColumnMatch,
    zone: str,
    time: str | None,
    *,
    has_rows: bool,
) -> tuple[DataFrame, Mapping[str, str]]:
    """Read files of one format with the same columns. Return their rows and the column types that the files declare."""
    by_source = {taken.source: taken for taken in matched.taken}
    raw = raw_rows(ReadRequest(spark, shape, paths, reading, by_source, zone, has_rows))
    values = [f"{_typed_sql(raw, taken, zone, reading)} AS {quote_name(taken.name)}" for taken in matched.taken]
    if reading.keeps_unread:
        values.append(f"{raw.unread} AS {UNREAD}")
    values.append(f"{file_key_sql(raw.path)} AS {FILE_KEY}")
    if has_rows:
        values.append(f"{raw.row} AS {_ROW}")
    if time:
        source = _find_time_column(time, matched.taken, raw.names, paths[0])
        values.append(f"{_data_time_sql(raw, source, by_source.get(source), zone, reading)} AS {TIME}")
    return raw.frame.selectExpr(*values), raw.file_types


def _find_time_column(time: str, taken: Sequence[CollectedColumn], names: Iterable[str], where: str) -> str:
    for one in taken:
        if one.name.lower() == time.lower():
            return one.source
    for name in names:
        if name.lower() == time.lower():
            return name
    raise WaterclockError(
        "E805",
        f"{where} has no column {time}",
        where=where,
        why=f"BY DATA TIME {time} decides the window of each row; it has {', '.join(names)}",
        fix="name the column that holds the data time",
    )


def _data_time_sql(raw: RawRows, source: str, taken: CollectedColumn | None, zone: str, reading: ReadOptions) -> str:
    """Return the SQL of a row's data time. A text is parsed by the pattern that is declared for the column's type."""
    found, value = raw.types[source], raw.value_of(source)
    kind = taken.type.upper() if taken is not None and taken.is_typed else ""
    pattern = {"DATE": reading.date_format}.get(kind, reading.timestamp_format)
    if found.lower() == "string" and kind in {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"} and pattern:
        return instant_sql(value_of_text(value, kind, zone, reading), kind, zone)
    return instant_sql(value, found, zone)


def _typed_sql(raw: RawRows, taken: CollectedColumn, zone: str, reading: ReadOptions) -> str:
    """Return SQL that converts a column to its declared type; a type mismatch raises an error that names the file."""
    found, value = raw.types[taken.source], raw.value_of(taken.source)
    if not taken.is_typed or "".join(found.split()).lower() == "".join(taken.type.split()).lower():
        return value
    if found.lower() in {"timestamp_ntz", "date"} and taken.type.upper() == "TIMESTAMP":
        return f"to_utc_timestamp(CAST({value} AS TIMESTAMP), {sql_text(zone)})"
    wrong = f"CASE WHEN {value} IS NOT NULL THEN {build_raise_sql(raw.path, taken.source, value)} END"
    if _may_lose_digits(found, taken.type):
        narrow = f"try_cast({value} AS {taken.type})"
        return f"coalesce(CASE WHEN {narrow} = {value} THEN {narrow} END, {wrong})"
    within = type_to_read(taken.type)
    if found == within or (found.lower() != "string" and within != taken.type):
        text = value if found == within else f"CAST({value} AS {within})"
        mismatch = build_raise_sql(raw.path, taken.source, f"to_json({value})")
        return f"coalesce({narrow_value(text, taken.type)}, CASE WHEN {value} IS NOT NULL THEN {mismatch} END)"
    if found.lower() != "string":
        return f"CAST({value} AS {taken.type})"
    return f"coalesce({value_of_text(value, taken.type, zone, reading)}, {wrong})"


def _may_lose_digits(found: str, declared: str) -> bool:
    """Return whether a cast between two types of numbers could silently drop digits of a DECIMAL or a fraction."""
    if decimal_of(declared):
        return decimal_of(found) is not None
    return declared.lower() in _WHOLE and is_number(found) and found.lower() not in _WHOLE


def value_of_text(value: str, type_name: str, zone: str, reading: ReadOptions) -> str:
    """Return SQL that parses a text (also SQL) as a type, by the options `reading`; NULL if the text is invalid."""
    kind = type_name.upper()
    if is_number(type_name):
        return cast_text(normalize_number_sql(value, reading), type_name)
    if kind in ("TIMESTAMP", "TIMESTAMP_NTZ") and reading.timestamp_format:
        if kind == "TIMESTAMP":
            return _instant_by_pattern(value, reading.timestamp_format, zone)
        return f"CAST(try_to_timestamp({value}, {sql_text(reading.timestamp_format)}) AS {kind})"
    if kind == "BINARY":
        return f"try_to_binary({value}, 'base64')"
    if kind == "DATE" and reading.date_format:
        return f"CAST(try_to_timestamp({value}, {sql_text(reading.date_format)}) AS DATE)"
    return instant_sql(value, "STRING", zone) if kind == "TIMESTAMP" else cast_text(value, type_name)


def _instant_by_pattern(value: str, pattern: str, zone: str) -> str:
    """Return SQL that parses a text as an instant: in `zone`, unless the pattern contains a zone."""
    local = f"to_utc_timestamp(try_to_timestamp({value}, {sql_text(pattern)}), {sql_text(zone)})"
    if not _has_zone(pattern):
        return local
    required = _OPTIONAL.sub(lambda part: part[1] if _has_zone(part[1]) else part[0], pattern)
    own = f"try_to_timestamp({value}, {sql_text(required)})"
    return own if required == pattern else f"coalesce({own}, {local})"


def _has_zone(pattern: str) -> bool:
    return not _ZONE_LETTERS.isdisjoint(_LITERAL.sub("", pattern))
