"""Finds CSV files in which a row may span several lines because a quoted field contains a line break."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING
from urllib.parse import unquote

from waterclock.connectors.files.csv_records import has_open_lines, quotes_of
from waterclock.connectors.files.encodings import LongLineError, lines_of, open_text
from waterclock.connectors.files.file_schemas import unreadable_file_error
from waterclock.connectors.files.line_numbers import SAME_LINES
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.windowing import file_uri_of
from waterclock.files.filesystem import map_each, stat_file
from waterclock.spark_sql import literal_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOKED_THROUGH = 8 << 20


def read_by_record(spark: SparkSession, reading: ReadOptions, paths: Sequence[str]) -> AbstractSet[str]:
    """Return the CSV files that must be read record by record, because a record may span lines.

    These are all files if a line end of their encoding is not one byte, or if Spark does not support the encoding.
    Otherwise they are the files with a quoted field that is open at the end of a line. A file that cannot be read is
    left out, because the scan reports it.

    Raises E807 for a file with a line that is too long
    Cost: up to 8 MB of files are read here; for more, one pass by Spark, which reads lines in parallel.
    """
    if reading.encoding.upper() not in SAME_LINES:
        return frozenset(paths)
    if not reading.quote:
        return frozenset()
    try:
        is_small = sum(map_each(paths, lambda path: stat_file(path).size, at=paths[0])) <= _LOOKED_THROUGH
    except FileNotFoundError:
        return frozenset()
    if not is_small:
        return _find_spanning_by_spark(spark, reading, paths)
    found = map_each(paths, lambda path: _is_spanning(path, reading), at=paths[0])
    return frozenset(path for path, is_spanning in zip(paths, found, strict=True) if is_spanning)


def _is_spanning(path: str, reading: ReadOptions) -> bool:
    try:
        with open_text(path, reading.encoding, errors="replace") as file:
            return has_open_lines(lines_of(file), quotes_of(reading, reading.delimiter_of(path)))
    except LongLineError as error:
        raise unreadable_file_error(path, error) from error
    except (OSError, EOFError, zlib.error):
        return False


def _find_spanning_by_spark(spark: SparkSession, reading: ReadOptions, paths: Sequence[str]) -> AbstractSet[str]:
    by_uri = {unquote(file_uri_of(path)): path for path in paths}
    found: set[str] = set()
    for delimiter in sorted({reading.delimiter_of(path) for path in paths}):
        own = [literal_path(path) for path in paths if reading.delimiter_of(path) == delimiter]
        lines = spark.read.text(own).where(quotes_of(reading, delimiter).open_in_sql)
        found.update(row[0] for row in lines.selectExpr("_metadata.file_path").distinct().collect())
    return frozenset(by_uri[uri] for each in found if (uri := unquote(each)) in by_uri)
