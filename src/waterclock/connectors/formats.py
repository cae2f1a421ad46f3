"""How do many files become one frame, by one scan, with the columns that were declared?

CSV is read by position in Spark, so the header of each file is looked at here first: files whose headers agree share a
scan, and columns are put together by name. A column is text unless it is typed. Malformed rows are refused: Spark
reads FAILFAST and without pruning, or a row of the wrong width would pass unseen when its columns are not asked for.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from bz2 import BZ2File
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from waterclock.connectors.columns import Found, Matched, Taken, match
from waterclock.connectors.landing import FORMATS, format_of
from waterclock.errors import WaterclockError
from waterclock.flow import Columns, Value

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession

_LOOKED_THROUGH = 8 << 20


@dataclass(frozen=True, slots=True)
class Reading:
    """How the files of a unit are to be understood."""

    has_header: bool = True
    delimiter: str | None = None
    quote: str = '"'
    escape: str = "\\"
    encoding: str = "UTF-8"
    null: str = ""
    timestamp_format: str | None = None
    date_format: str | None = None
    is_multiline: bool = False

    def delimiter_of(self, path: str) -> str:
        """The declared delimiter, else a tab in .tsv files and a comma in others."""
        kind = format_of(path)
        return self.delimiter or ("\t" if kind and kind[0] == "tsv" else ",")


@dataclass(frozen=True, slots=True)
class Shape:
    """Files that one scan reads: all of one format, with the same columns at the same places."""

    format: str
    delimiter: str
    found: tuple[Found, ...]


@dataclass(frozen=True, slots=True)
class Scanned:
    """The frame of all files. It holds `file_key` where asked, to be looked up by `file_key_of` a path."""

    frame: DataFrame
    left_out: tuple[str, ...]


_NUMBERS = frozenset(
    "tinyint byte smallint short int integer bigint long float real double decimal dec numeric".split()
)

FILE_KEY = "_waterclock_file"
TIME = "_waterclock_time"
MISFIT = "waterclock-misfit"


def scan(
    spark: SparkSession, paths: Sequence[str], reading: Reading, columns: Columns, zone: str, *, time: str | None = None
) -> Scanned:
    """Read files into one frame: the columns taken, `FILE_KEY` and, where `time` names a column, the instant `TIME`.

    Raises  E805 and E808 as `columns.match`, naming the file
            E807 for a file whose head cannot be read, E809 for formats that do not go together
    Cost    one look at each file's head; up to 8 MB of JSON are read through for their keys. Beyond, Spark is asked
            for them if the list is open; if it is closed, what it leaves out is not known
    """
    shapes = shapes_of(spark, paths, reading, columns)
    frames: list[DataFrame] = []
    left_out: dict[str, None] = {}
    order: dict[str, None] = {}
    for shape, members in shapes.items():
        matched = match(columns, shape.found, where=members[0])
        left_out.update(dict.fromkeys(matched.left_out))
        order.update(dict.fromkeys(taken.name for taken in matched.taken))
        frames.append(_scan_shape(spark, shape, members, reading, matched, zone, time))
    frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    technical = [FILE_KEY, *([TIME] if time else [])]
    if len(frames) > 1:
        frame = frame.select(*(_quoted(name) for name in (*order, *technical)))
    return Scanned(frame, tuple(name for name in left_out if name not in order))


def shapes_of(
    spark: SparkSession | None, paths: Sequence[str], reading: Reading, columns: Columns
) -> Mapping[Shape, list[str]]:
    """Put files together that one scan can read, in the order given."""
    formats = {FORMATS[kind[0]] for path in paths if (kind := format_of(Path(path).name))}
    if len(formats) != 1:
        raise WaterclockError(
            "E809",
            f"files of several formats: {', '.join(sorted(formats))}",
            where=paths[0] if paths else None,
            why="the files of a unit are read as one",
            fix="give each format a COLLECT with a glob of its own",
        )
    if formats == {"json"}:
        return {_json_shape(spark, paths, reading, columns): list(paths)}
    shapes: dict[Shape, list[str]] = {}
    for path in paths:
        shape = _csv_shape(path, reading, columns) if formats == {"csv"} else _parquet_shape(path)
        shapes.setdefault(shape, []).append(path)
    return shapes


def text_of(path: str, encoding: str) -> IO[str]:
    """Open a file as text, whatever its compression."""
    kind = format_of(Path(path).name)
    compression = kind[1] if kind else ""
    if compression == "gz":
        return cast("IO[str]", gzip.open(path, "rt", encoding=_python_encoding(encoding), newline=""))
    if compression == "bz2":
        return TextIOWrapper(BZ2File(path), encoding=_python_encoding(encoding), newline="")
    if compression == "zst":
        import pyarrow as pa

        stream = pa.input_stream(path, compression="zstd")
        return TextIOWrapper(cast("IO[bytes]", stream), encoding=_python_encoding(encoding), newline="")
    return Path(path).open(encoding=_python_encoding(encoding), newline="")


def unreadable(path: str, error: BaseException) -> WaterclockError:
    """Make the error for a file that turned out not to be whole."""
    return WaterclockError(
        "E807",
        f"cannot read {Path(path).name}",
        where=path,
        why=str(error) or type(error).__name__,
        fix="deliver the file again under the same name, or take it out of the landing folder; nothing was taken of it",
    )


def file_key_of(path: str) -> str:
    """Give the value of `FILE_KEY` for the rows of a file."""
    encoded = "".join(sign if sign in _PLAIN or not sign.isascii() else f"%{ord(sign):02X}" for sign in path)
    return f"file:{encoded}".lstrip("file:/")


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.!~*'()/:@&=+$,;")


def _python_encoding(encoding: str) -> str:
    return "utf-8-sig" if encoding.upper() in ("UTF-8", "UTF8") else encoding


def _csv_shape(path: str, reading: Reading, columns: Columns) -> Shape:
    delimiter = reading.delimiter_of(path)
    try:
        with text_of(path, reading.encoding) as file:
            first = next(csv.reader(_lines(file), delimiter=delimiter, quotechar=reading.quote or None), None)
    except (OSError, EOFError, UnicodeError, csv.Error) as error:
        raise unreadable(path, error) from error
    if not first:
        raise unreadable(path, EOFError("it has no header" if reading.has_header else "it is empty"))
    if not reading.has_header:
        names = [column.name for column in columns.named][: len(first)]
        first = names + [f"column_{place}" for place in range(len(names) + 1, len(first) + 1)]
    return Shape("csv", delimiter, tuple(Found(name) for name in first))


def _lines(file: IO[str]) -> Iterator[str]:
    """Yield the lines that Spark sees: it skips empty ones."""
    return (line for line in file if line.strip())


def _parquet_shape(path: str) -> Shape:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise unreadable(path, error) from error
    return Shape("parquet", "", tuple(Found(field.name, str(field.type)) for field in schema))


def _json_shape(spark: SparkSession | None, paths: Sequence[str], reading: Reading, columns: Columns) -> Shape:
    declared = [column.name for column in columns.named]
    keys: Iterable[str] = ()
    if sum(Path(path).stat().st_size for path in paths) <= _LOOKED_THROUGH or spark is None:
        keys = _json_keys(paths, reading)
    elif columns.is_open:
        keys = _inferred_keys(spark, paths, reading)
    known = dict.fromkeys(sorted(keys))
    lower = {key.lower() for key in known}
    return Shape("json", "", tuple(Found(name) for name in [*known, *(d for d in declared if d.lower() not in lower)]))


def _json_keys(paths: Sequence[str], reading: Reading) -> set[str]:
    keys: set[str] = set()
    for path in paths:
        for document in json_documents(path, reading):
            keys.update(document)
    return keys


def json_documents(path: str, reading: Reading) -> Iterator[dict[str, object]]:
    """Yield the objects of a JSON file, in order; what is no object is left out, for Spark to refuse."""
    try:
        with text_of(path, reading.encoding) as file:
            texts: Iterable[str] = [file.read()] if reading.is_multiline else file
            for text in texts:
                try:
                    parsed = json.loads(text) if text.strip() else None
                except ValueError:
                    continue
                for document in parsed if isinstance(parsed, list) else [parsed]:
                    if isinstance(document, dict):
                        yield document
    except (OSError, EOFError, UnicodeError) as error:
        raise unreadable(path, error) from error


def _inferred_keys(spark: SparkSession, paths: Sequence[str], reading: Reading) -> list[str]:
    return _reader(spark, "json", reading, "", "UTC").option("primitivesAsString", True).json(list(paths)).columns  # noqa: FBT003


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


def _scan_shape(
    spark: SparkSession,
    shape: Shape,
    paths: Sequence[str],
    reading: Reading,
    matched: Matched,
    zone: str,
    time: str | None,
) -> DataFrame:
    from pyspark.sql import functions as sf

    by_source = {taken.source: taken for taken in matched.taken}
    literal = [re.sub(r"([\\{}\[\]*?])", r"\\\1", path) for path in paths]  # Spark takes a path for a glob
    if shape.format == "parquet":
        frame = spark.read.parquet(*literal)
        names = {found.name: found.name for found in shape.found}
        types = {field.name: field.dataType.simpleString() for field in frame.schema}
    else:
        reader = _reader(spark, shape.format, reading, shape.delimiter, zone)
        names = {found.name: f"c{at}" if shape.format == "csv" else found.name for at, found in enumerate(shape.found)}
        types = {name: _type_to_read(by_source.get(name), shape.format) for name in names}
        ddl = ", ".join(f"{_quoted(names[name])} {types[name]}" for name in names)
        reader = reader.schema(ddl)
        frame = reader.csv(literal) if shape.format == "csv" else reader.json(literal)
    values = [
        _as_type(frame[_quoted(names[taken.source])], types[taken.source], taken, zone).alias(taken.name)
        for taken in matched.taken
    ]
    values.append(sf.ltrim(sf.col("_metadata.file_path"), sf.lit("file:/")).alias(FILE_KEY))
    if time:
        source = _time_source(time, matched.taken, names, paths[0])
        values.append(instant(frame[_quoted(names[source])], types[source], zone).alias(TIME))
    return frame.select(*values)


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
    """Give the type that Spark's reader is asked for. In JSON a number may be written in quotes: it is read as text."""
    if taken is None or (format_name == "json" and taken.type.lower().partition("(")[0] in _NUMBERS):
        return "STRING"
    return taken.type


def _as_type(value: Column, found: str, taken: Taken, zone: str) -> Column:
    from pyspark.sql import functions as sf

    if not taken.is_typed or found.lower() == taken.type.lower():
        return value
    if found == "timestamp_ntz" and taken.type.upper() == "TIMESTAMP":
        return sf.to_utc_timestamp(value.cast("timestamp"), zone)
    if found.lower() != "string":
        return value.cast(taken.type)
    told = sf.concat_ws("|", sf.lit(MISFIT), sf.col("_metadata.file_path"), sf.lit(taken.source), value)
    return sf.coalesce(value.try_cast(taken.type), sf.when(value.isNotNull(), sf.raise_error(told)))


def instant(value: Column, type_name: str, zone: str) -> Column:
    """Give a value as an instant: zone-less ones in `zone`, text by its own offset where it has one; NULL if neither.

    Raises  E815 for a type that is no time
    """
    from pyspark.sql import functions as sf

    kind = type_name.lower()
    if kind == "timestamp":
        return value
    if kind in ("timestamp_ntz", "date"):
        return sf.to_utc_timestamp(value.cast("timestamp"), zone)
    if kind == "string":
        parsed = value.try_cast("timestamp")
        return sf.when(value.rlike(r"(?:[Zz]|[+-]\d{2}:?\d{2})\s*$") & value.rlike(":"), parsed).otherwise(
            sf.to_utc_timestamp(parsed, zone)
        )
    raise WaterclockError(
        "E815",
        f"a data time of type {type_name} is not understood",
        why="a data time is a TIMESTAMP, TIMESTAMP_NTZ, DATE or text",
        fix="type the column in the column list, or bring it as text",
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
