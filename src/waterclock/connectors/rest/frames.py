"""Builds Spark frames from the records of stored pages: typed as declared, else as text. Nested values are JSON text.

A type mismatch stops the batch with an error that names the page and the record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from waterclock.connectors.column_matching import CollectedColumn, SourceColumn
from waterclock.connectors.nested_decimals import narrow_value, type_to_read
from waterclock.connectors.rest.page_store import lines_of
from waterclock.connectors.spark_file_metadata import show_metadata
from waterclock.connectors.windowing import FILE_KEY, TIME, instant_sql
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, file_exists
from waterclock.files.object_stores import is_remote
from waterclock.spark_sql import cast_text, literal_path, quote_name, sql_text
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ASKED_BY = "_waterclock_own"
"""The column with the label of the window that requested a record."""
_TYPE_MISMATCH = "waterclock-misfit-of-page"
_MISMATCH_TEXT = re.compile(re.escape(_TYPE_MISMATCH) + r"\|(.*?)\|(.*?)\|(.*?)(?: SQLSTATE|\n|$)")
_FILE = re.compile(r"Encountered error while reading file (?:file:/*)?(/?\S*?page-\d+-\S*?\.ndjson\.gz)")
_SCALARS = frozenset(
    "tinyint byte smallint short int integer bigint long float real double decimal dec numeric boolean".split()
)
_EPOCHS = {"seconds": "timestamp_seconds", "milliseconds": "timestamp_millis", "microseconds": "timestamp_micros"}


def frame_of(  # noqa: PLR0913 - each is an independent input
    spark: SparkSession,
    paths: Sequence[str],
    known: Sequence[SourceColumn],
    taken: Sequence[CollectedColumn],
    zone: str,
    epoch: str,
    *,
    time: str | None = None,
    by_window: bool = False,
    inside: Mapping[str, str] | None = None,
    chosen: Callable[[DataFrame], DataFrame] | None = None,
) -> DataFrame:
    """Return the records of stored pages as a frame. If `time` is a column, its instants are added as `TIME`.

    `by_window` adds `ASKED_BY`, the label of the window that requested the record. `inside` maps columns to their JSON
    members in the pages, if the names differ. `chosen` filters records before their values are parsed; its input has
    these members and `ASKED_BY`. Cost: one scan when the frame is evaluated, and no job before.
    """
    inside = inside or {}
    by_source = {one.source: one for one in taken}
    types = {found.name: _type_to_read(by_source.get(found.name), epoch) for found in known}
    asked = by_source.keys() | {found.name for found in known if time and found.name.lower() == time.lower()}
    fields = {inside.get(name, name): kind for name, kind in types.items() if name in asked}
    fields |= {name: "STRING" for name in inside.values() if name not in fields}
    ddl = ", ".join(f"{quote_name(name)} {kind}" for name, kind in fields.items())
    # no encoding: with one, Spark converts numbers to text by way of a double
    reader = spark.read.options(mode="FAILFAST", timeZone=zone).schema(ddl)
    frame, file = show_metadata(reader.json([literal_path(path) for path in paths]), fields)
    asked_by = f"regexp_extract({file}.file_path, '/w(?:=|%3D)([0-9]+)/', 1)"
    if chosen is not None:
        frame = chosen(frame.withColumn(ASKED_BY, _sql(asked_by)))
    values = [
        f"{_typed_sql(quote_name(inside.get(one.source, one.source)), types[one.source], one, zone, epoch, file)} "
        f"AS {quote_name(one.name)}"
        for one in taken
    ]
    if time:
        source = next(found.name for found in known if found.name.lower() == time.lower())
        values.append(f"{_instant_sql(quote_name(source), types[source], zone, epoch)} AS {TIME}")
        values.append(f"'' AS {FILE_KEY}")
    if by_window:
        values.append(f"{asked_by} AS {ASKED_BY}")
    return frame.selectExpr(*values)


def keep_own_window(labelled: DataFrame) -> DataFrame:
    """Keep the rows that are in the window that requested them, and drop `ASKED_BY`."""
    return labelled.where(f"{ASKED_BY} = {TIMELABEL}").drop(ASKED_BY)


def empty_frame(spark: SparkSession, types: Mapping[str, str], *, has_label: bool) -> DataFrame:
    """Return an empty frame with these columns and types."""
    fields = [f"CAST(NULL AS {kind}) AS {quote_name(name)}" for name, kind in types.items()]
    return spark.range(0).selectExpr(*fields, *([f"'' AS {TIMELABEL}"] if has_label else []))


def explain(error: BaseException, where: str) -> WaterclockError | None:
    """Build an error that names the record that Spark failed to read; None if the error is not about a page."""
    text = str(error)
    match = _MISMATCH_TEXT.search(text)
    if match:
        path = _path_of_uri(match[1])
        why = f"{match[2]} is {match[3]!r}, which does not fit its type"
        return _record_error(path, _find_record(path, match[2], match[3]), why, where)
    file = _FILE.search(text)
    if file is None:
        return None
    return _record_error(
        _path_of_uri(file[1]), None, "Spark cannot read one of its records with the declared types", where
    )


def _record_error(path: str, record: int | None, why: str, where: str) -> WaterclockError:
    page = re.search(r"page-0*(\d+)-", Path(path).name)
    which = f"page {page[1]}" if page else Path(path).name
    return WaterclockError(
        "E846",
        f"a record of {which} does not fit its columns{f': record {record} of it' if record else ''}",
        where=f"{where}, {path}{f':{record}' if record else ''}",
        why=why,
        fix="declare the column as STRING and parse it in a transform with try_cast or from_json; or fix it "
        "at the source, then `waterclock retry`",
    )


def _path_of_uri(path: str) -> str:
    plain = unquote(path)
    return plain if is_remote(plain) else "/" + plain.removeprefix("file:").lstrip("/")


def _find_record(path: str, name: str, value: str) -> int | None:
    if not file_exists(path):
        return None
    for number, line in enumerate(lines_of(entry_path(path)), 1):
        record: Any = json.loads(line, parse_float=str, parse_int=str)
        if isinstance(record, dict) and str(record.get(name)) == value:
            return number
    return None


def _sql(text: str) -> Column:
    from pyspark.sql import functions as sf

    return sf.expr(text)


def _type_to_read(taken: CollectedColumn | None, epoch: str) -> str:
    """Return the type for Spark's JSON reader: text for numbers and booleans, because a value may be in quotes."""
    if taken is None:
        return "STRING"
    kind = taken.type.lower().partition("(")[0].strip()
    return "STRING" if kind in _SCALARS or (epoch and kind == "timestamp") else type_to_read(taken.type)


def _typed_sql(value: str, found: str, taken: CollectedColumn, zone: str, epoch: str, file: str) -> str:
    if not taken.is_typed or found.lower() == taken.type.lower():
        return value
    is_time, is_nested = taken.type.lower() == "timestamp", found == type_to_read(taken.type)
    if is_time:
        made = _instant_sql(value, found, zone, epoch)
    else:
        made = narrow_value(value, taken.type) if is_nested else cast_text(value, taken.type)
    text = f"to_json({value})" if is_nested else value
    mismatch = f"concat_ws('|', '{_TYPE_MISMATCH}', {file}.file_path, {sql_text(taken.source)}, {text})"
    return f"coalesce({made}, CASE WHEN {value} IS NOT NULL THEN raise_error({mismatch}) END)"


def _instant_sql(value: str, found: str, zone: str, epoch: str) -> str:
    """Return SQL that converts a value to an instant. A text of digits counts `epoch` units since 1970."""
    if found.lower() != "string":
        return instant_sql(value, found, zone)
    number = f"CASE WHEN {value} RLIKE '^-?[0-9]+$' THEN {_EPOCHS[epoch or 'seconds']}(CAST({value} AS BIGINT)) END"
    return f"coalesce({number}, {instant_sql(value, found, zone)})"
