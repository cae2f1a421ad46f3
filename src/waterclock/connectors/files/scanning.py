"""Reads many files into one frame, by one scan, with the columns that were declared.

A column is text unless it is typed. Malformed rows are refused: Spark reads FAILFAST and without pruning, or a row of
the wrong width would pass unseen when its columns are not asked for. Expressions are SQL text, one call to the JVM
for all: on small files the calls would cost more than the reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING

from waterclock.connectors.column_matching import Matched, Taken, match, seen_of
from waterclock.connectors.files.file_schemas import Reading, Shape, shapes_of
from waterclock.connectors.windowing import FILE_KEY, TIME, instant
from waterclock.errors import WaterclockError
from waterclock.flow.compatibility import wider
from waterclock.flow.declarations import Columns, Value
from waterclock.flow.origins import IN_ROWS, TYPES
from waterclock.spark_sql import literal_path, quoted, sql_text

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

    What is not used of both costs nothing. `seen` are columns with their types, and the files that have them.
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


def scan(
    spark: SparkSession,
    paths: Sequence[str],
    reading: Reading,
    columns: Columns,
    zone: str,
    *,
    time: str | None = None,
    has_rows: bool = False,
) -> Scanned:
    """Read files into one frame: the columns taken, `FILE_KEY` and, where `time` names a column, the instant `TIME`.

    `has_rows`: it has each row's number in its file as well, from 1; NULL but of Parquet, where Spark tells it.

    Raises  E805 and E808 as `column_matching.match`, naming the file; E807 and E809 as `file_schemas.shapes_of`
    Cost    one look at each file's head; Spark is asked for a schema for Parquet, and for the keys of much JSON
    """
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
        beside = [FILE_KEY, *([TIME] if time else []), *([_ROW] if has_rows else [])]
        frame = frame.select(*(quoted(name) for name in (*order, *beside)))
    return Scanned(frame, tuple(name for name in left_out if name not in order), tuple(seen))


def _inferred_keys(spark: SparkSession, reading: Reading, paths: Sequence[str]) -> list[str]:
    reader = _reader(spark, "json", reading, "", "UTC").options(primitivesAsString=True)
    return reader.json(_literal(paths)).columns


def _literal(paths: Sequence[str]) -> list[str]:
    return [literal_path(path) for path in paths]


def _reader(spark: SparkSession, format_name: str, reading: Reading, delimiter: str, zone: str) -> DataFrameReader:
    options: dict[str, Value] = {
        "mode": "FAILFAST",
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
    return spark.read.options(**{name: value for name, value in options.items() if value is not None})


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
        ddl = ", ".join(f"{quoted(names[name])} {types[name]}" for name in names)
        reader = _reader(spark, shape.format, reading, shape.delimiter, zone).schema(ddl)
        frame = reader.csv(_literal(paths)) if shape.format == "csv" else reader.json(_literal(paths))
    values = [
        f"{_as_type(quoted(names[taken.source]), types[taken.source], taken, zone)} AS {quoted(taken.name)}"
        for taken in matched.taken
    ]
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
