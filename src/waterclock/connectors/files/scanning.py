"""Reads many files into one frame, by one scan, with the columns that were declared.

A column is text unless it is typed. Malformed rows are refused: Spark reads FAILFAST and without pruning, or a row of
the wrong width would pass unseen when its columns are not asked for. Where EXPECT parsed() says what becomes of them,
Spark reads PERMISSIVE, and such a row comes with its line in `UNREAD`. Expressions are SQL text, one call to the JVM
for all: on small files the calls would cost more than the reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, reduce
from typing import TYPE_CHECKING

from waterclock.connectors.column_matching import Matched, Taken, match, seen_of
from waterclock.connectors.files.file_schemas import Reading, Shape, shapes_of
from waterclock.connectors.files.origins import by_file
from waterclock.connectors.windowing import FILE_KEY, TIME, instant
from waterclock.errors import WaterclockError
from waterclock.flow.checks import keeps_unread
from waterclock.flow.compatibility import wider
from waterclock.flow.declarations import Columns, Value
from waterclock.flow.origins import IN_ROWS, TYPES
from waterclock.spark_sql import literal_path, quoted, sql_text
from waterclock.storage.slices.sieve import UNREAD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

MISFIT = "waterclock-misfit"
_ROW = IN_ROWS["row"]

_NUMBERS = frozenset(
    "tinyint byte smallint short int integer bigint long float real double decimal dec numeric".split()
)


@dataclass(frozen=True, slots=True)
class Scanned:
    """The frame of all files, with `FILE_KEY`, which `file_key_of` gives for a path, and `TIME` where it was asked for.

    What is not used of both costs nothing. `UNREAD` is there where lines that cannot be read are kept. `seen` are
    columns with their types, and the files that have them.
    """

    frame: DataFrame
    left_out: tuple[str, ...]
    seen: tuple[tuple[Mapping[str, str], Sequence[str]], ...] = ()

    def seen_in(self, paths: AbstractSet[str] | None = None) -> dict[str, str]:
        """Return the columns that some of the files have, all of them if not said, with types that hold all values."""
        together: dict[str, str] = {}
        for columns, members in self.seen:
            if paths is None or not paths.isdisjoint(members):
                together |= {name: wider(together.get(name, kind), kind) for name, kind in columns.items()}
        return together


def scan(  # noqa: PLR0913 - each is a part of what is read
    spark: SparkSession,
    paths: Sequence[str],
    reading: Reading,
    columns: Columns,
    zone: str,
    *,
    time: str | None = None,
    stamps: Mapping[str, datetime] | None = None,
    has_rows: bool = False,
) -> Scanned:
    """Read files into one frame: the columns taken, `FILE_KEY` and, where `time` names a column, the instant `TIME`.

    A line that cannot be read has no time of its own: where such lines are kept, it has the stamp of its file.
    `has_rows`: it has each row's number in its file as well, from 1; NULL but of Parquet, where Spark tells it.

    Raises  E805 and E808 as `column_matching.match`, naming the file; E807 and E809 as `file_schemas.shapes_of`
    Cost    one look at each file's head; Spark is asked for a schema for Parquet, and for the keys of much JSON
    """
    reading = replace(reading, keeps_unread=keeps_unread(columns))
    shapes = shapes_of(paths, reading, columns, keys_of_many=partial(_inferred_keys, spark, reading))
    frames: list[DataFrame] = []
    seen: list[tuple[Mapping[str, str], Sequence[str]]] = []
    left_out: dict[str, None] = {}
    order: dict[str, None] = {}
    for shape, members in shapes.items():
        matched = match(columns, shape.found, where=members[0])
        left_out.update(dict.fromkeys(matched.left_out))
        order.update(dict.fromkeys(taken.name for taken in matched.taken))
        read, types = _scan_shape(spark, shape, members, reading, matched, zone, time, has_rows=has_rows)
        frames.append(read)
        seen.append((types if shape.is_whole else {}, members))
    frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    if len(frames) > 1:
        unread = [UNREAD] if reading.keeps_unread else []
        beside = [FILE_KEY, *unread, *([TIME] if time else []), *([_ROW] if has_rows else [])]
        frame = frame.select(*(quoted(name) for name in (*order, *beside)))
    if time and stamps and reading.keeps_unread:
        frame = _at_stamps(spark, frame, stamps)
    return Scanned(frame, tuple(name for name in left_out if name not in order), tuple(seen))


def _at_stamps(spark: SparkSession, frame: DataFrame, stamps: Mapping[str, datetime]) -> DataFrame:
    names = [quoted(name) for name in frame.columns if name != TIME]
    frame, home = by_file(spark, frame, {path: stamp.isoformat() for path, stamp in stamps.items()})
    return frame.selectExpr(
        *names, f"CASE WHEN {UNREAD} IS NULL THEN {TIME} ELSE CAST({home} AS TIMESTAMP) END AS {TIME}"
    )


def _inferred_keys(spark: SparkSession, reading: Reading, paths: Sequence[str]) -> list[str]:
    reader = _reader(spark, "json", reading, "", "UTC").options(primitivesAsString=True)
    return reader.json(_literal(paths)).columns


def _literal(paths: Sequence[str]) -> list[str]:
    return [literal_path(path) for path in paths]


def _reader(spark: SparkSession, format_name: str, reading: Reading, delimiter: str, zone: str) -> DataFrameReader:
    return spark.read.options(**_options(format_name, reading, delimiter, zone))


def _options(format_name: str, reading: Reading, delimiter: str, zone: str) -> dict[str, Value]:
    options: dict[str, Value] = {
        "mode": "PERMISSIVE" if reading.keeps_unread else "FAILFAST",
        "columnNameOfCorruptRecord": UNREAD if reading.keeps_unread else None,
        "columnPruning": False,
        "encoding": reading.encoding,
        "timeZone": zone,
        "multiLine": reading.is_multiline,
        "timestampFormat": reading.timestamp_format,
        "dateFormat": reading.date_format,
    }
    if format_name == "csv":
        options |= {
            "header": reading.has_header,
            "sep": delimiter,
            "quote": reading.quote,
            "escape": reading.escape,
            "nullValue": reading.null,
        }
    return {name: value for name, value in options.items() if value is not None}


def _unread(shape: Shape, names: Iterable[str], reading: Reading) -> str:
    """Write the line of a row that is not of its format; fail for one that is, and holds a value of another type.

    Spark's reader keeps the line of both. What tells them apart is to read it anew as text alone, which is done of such
    lines only.
    """
    if shape.format == "parquet":
        return "CAST(NULL AS STRING)"
    options = _options(shape.format, reading, shape.delimiter, "UTC")
    pairs = ", ".join(f"{sql_text(name)}, {sql_text(_said(value))}" for name, value in options.items())
    schema = ", ".join(f"{quoted(name)} STRING" for name in (*names, UNREAD))
    as_text = f"from_{shape.format}({UNREAD}, {sql_text(schema)}, map({pairs}))"
    told = f"concat_ws('|', '{MISFIT}', _metadata.file_path, 'a value of a row', {UNREAD})"
    return (
        f"CASE WHEN {UNREAD} IS NOT NULL THEN CASE WHEN {as_text}.{UNREAD} IS NOT NULL THEN {UNREAD} "
        f"ELSE raise_error({told}) END END"
    )


def _said(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _scan_shape(  # noqa: PLR0913 - each is a part of what is read
    spark: SparkSession,
    shape: Shape,
    paths: Sequence[str],
    reading: Reading,
    matched: Matched,
    zone: str,
    time: str | None,
    *,
    has_rows: bool,
) -> tuple[DataFrame, Mapping[str, str]]:
    """Return the rows of files of one shape, and the columns that the files themselves say they have."""
    by_source = {taken.source: taken for taken in matched.taken}
    if shape.format == "parquet":
        frame = spark.read.parquet(*_literal(paths))
        names = {found.name: found.name for found in shape.found}
        seen = types = {field.name: field.dataType.simpleString() for field in frame.schema}
    else:
        seen = seen_of(shape.found)
        names = {found.name: f"c{at}" if shape.format == "csv" else found.name for at, found in enumerate(shape.found)}
        types = {name: _type_to_read(by_source.get(name), shape.format) for name in names}
        line = [f"{UNREAD} STRING"] if reading.keeps_unread else []
        ddl = ", ".join([*(f"{quoted(names[name])} {types[name]}" for name in names), *line])
        reader = _reader(spark, shape.format, reading, shape.delimiter, zone).schema(ddl)
        frame = reader.csv(_literal(paths)) if shape.format == "csv" else reader.json(_literal(paths))
    values = [
        f"{_as_type(quoted(names[taken.source]), types[taken.source], taken, zone)} AS {quoted(taken.name)}"
        for taken in matched.taken
    ]
    if reading.keeps_unread:
        values.append(f"{_unread(shape, names.values(), reading)} AS {UNREAD}")
    values.append(f"trim(LEADING 'file:/' FROM _metadata.file_path) AS {FILE_KEY}")
    if has_rows:
        number = "_metadata.row_index + 1" if shape.format == "parquet" else f"CAST(NULL AS {TYPES['row']})"
        values.append(f"{number} AS {_ROW}")
    if time:
        source = _time_source(time, matched.taken, names, paths[0])
        values.append(f"{instant(quoted(names[source]), types[source], zone)} AS {TIME}")
    return frame.selectExpr(*values), seen


def _time_source(time: str, taken: Sequence[Taken], names: Iterable[str], where: str) -> str:
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
        fix="name the column that holds the rows' own time",
    )


def _type_to_read(taken: Taken | None, format_name: str) -> str:
    """Return the type that Spark's reader is asked for. A number of JSON may stand in quotes: it is read as text."""
    if taken is None or (format_name == "json" and taken.type.lower().partition("(")[0] in _NUMBERS):
        return "STRING"
    return taken.type


def _as_type(value: str, found: str, taken: Taken, zone: str) -> str:
    if not taken.is_typed or found.lower() == taken.type.lower():
        return value
    if found == "timestamp_ntz" and taken.type.upper() == "TIMESTAMP":
        return f"to_utc_timestamp(CAST({value} AS TIMESTAMP), {sql_text(zone)})"
    if found.lower() != "string":
        return f"CAST({value} AS {taken.type})"
    told = f"concat_ws('|', '{MISFIT}', _metadata.file_path, {sql_text(taken.source)}, {value})"
    refused = f"CASE WHEN {value} IS NOT NULL THEN raise_error({told}) END"
    return f"coalesce(try_cast({value} AS {taken.type}), {refused})"
