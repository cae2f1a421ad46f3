"""Finds the file, line and reason of an error that Spark raised while it read files.

Spark names only the file. Line and column are found by reading that file once more, in this process.
"""

from __future__ import annotations

import csv
import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Context, Decimal, InvalidOperation
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import unquote

from waterclock.connectors.column_matching import match
from waterclock.connectors.files.csv_records import quotes_of, split_records
from waterclock.connectors.files.encodings import lines_of, open_decompressed, open_text
from waterclock.connectors.files.file_schemas import shapes_of, unreadable_file_error
from waterclock.connectors.files.fixed_width import width_of
from waterclock.connectors.files.number_texts import is_number, normalize_number
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.files.type_errors import REFUSED, TYPE_MISMATCH
from waterclock.connectors.files.xml_documents import first_fault
from waterclock.connectors.files.zips import display_name, is_member
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import file_exists
from waterclock.files.object_stores import is_remote, store_error_from_spark
from waterclock.flow.checks import keeps_unread
from waterclock.flow.declarations import Columns
from waterclock.json_depth import require_depth
from waterclock.printable import printable_line
from waterclock.spark_sql import decimal_of

_FILE = re.compile(r"FAILED_READ_FILE[.A-Z_]*\] Encountered error while reading file (?:file:/*)?(/?.*?)\.(?:\s|$)")
_NO_PATH = re.compile(r"\[PATH_NOT_FOUND\] Path does not exist: (?:file:/*)?(/?.*?)\.(?:\s|$)")
_REFUSED = re.compile(re.escape(REFUSED) + r"\|(.*?)\|(.*?)\|(.*?)\|", re.DOTALL)
_MISMATCH_FILE = re.compile(re.escape(TYPE_MISMATCH) + r"\|(?:file:/*)?(.*?)\|")
_MISMATCH_VALUE = re.compile(re.escape(TYPE_MISMATCH) + r"\|.*?\|(.*?)\|(.*?)(?: SQLSTATE|\n|$)")
_RECORD = re.compile(r"Malformed records are detected in record parsing: (.*?)\.?\s*\n?Parse Mode: FAILFAST")
_SQL_NUMBERS = ReadOptions()
_ALL_DIGITS = Context(prec=1_000_000)
_MOST_FURTHER_ROWS = 100_000
_MOST_LINES = 5
_MOST_DIGITS = 1_000  # of a number in JSON: Jackson, which Spark uses, refuses longer ones
_INTEGERS = {"tinyint": 7, "smallint": 15, "int": 31, "integer": 31, "bigint": 63, "byte": 7, "short": 15, "long": 63}


def explain(error: BaseException, reading: ReadOptions, columns: Columns) -> WaterclockError | None:
    """Build an error with the broken file, the line and the reason; None if no file caused the error.

    If the object store stopped responding during the read, the error is E609, which is retried.

    Raises nothing.
    Cost: the broken file is read once.
    """
    text = str(error)
    if (by_worker := _REFUSED.search(text)) is not None:
        return _refused_by_worker(*by_worker.groups())
    match_file = _MISMATCH_FILE.search(text) or _FILE.search(text) or _NO_PATH.search(text)
    if match_file is None:
        return None
    path = unquote(match_file[1])
    path = path if is_remote(path) else "/" + path.lstrip("/")
    away = store_error_from_spark(text, path) if is_remote(path) else None  # the rows themselves may all be valid
    return away or _error_of_file(path, text, reading, columns)


def _error_of_file(path: str, text: str, reading: ReadOptions, columns: Columns) -> WaterclockError:
    """Read a file again that Spark could not read, and build an error with the broken lines and the reason."""
    if not file_exists(path):
        return unreadable_file_error(path, FileNotFoundError())
    try:
        found = _find_broken_rows(_check_rows(path, reading, columns))
    except WaterclockError as error_of_file:
        return error_of_file
    except (OSError, EOFError, UnicodeError, csv.Error) as reason:
        return unreadable_file_error(path, reason)
    return WaterclockError(
        "E806",
        f"{display_name(path)} has {found.describe()}",
        where=f"{_describe_path(path)}:{found.lines[0]}" if found.lines else _describe_path(path),
        why=printable_line(found.why) or _spark_reason(text),
        fix="fix the file, put it into the landing folder again, then `waterclock retry`; or quarantine such rows: "
        "EXPECT parsed() ELSE QUARANTINE for lines that cannot be read, an ELSE after the type for other values; "
        "a nested column has no ELSE: collect it as STRING",
    )


def _refused_by_worker(uri: str, code: str, why: str) -> WaterclockError:
    path = unquote(uri)
    path = path if is_remote(path) else "/" + path.removeprefix("file:").lstrip("/")
    known = unreadable_file_error(_describe_path(path), ValueError(why))
    what = f"{display_name(path)} is too large" if code == "E882" else known.what
    return known if code == known.code else WaterclockError(code, what, where=known.where, why=why, fix=known.fix)


def _describe_path(path: str) -> str:
    return display_name(path) if is_member(path) else path


@dataclass(slots=True)
class _BrokenRows:
    """The broken rows of a file: their line numbers, the reason for the first one, and whether the list is complete."""

    lines: list[int] = field(default_factory=list)
    why: str = ""
    is_all: bool = True

    def describe(self) -> str:
        if len(self.lines) < 2:
            return "a broken row" + "".join(f" in line {line}" for line in self.lines)
        lines = ", ".join(map(str, self.lines[:_MOST_LINES])) + (", …" if len(self.lines) > _MOST_LINES else "")
        return f"{'' if self.is_all else 'at least '}{len(self.lines)} broken rows, in lines {lines}"


def _find_broken_rows(rows: Iterable[tuple[int, str | None]]) -> _BrokenRows:
    """Find the broken rows of a file. After the first one, at most `_MOST_FURTHER_ROWS` more rows are checked."""
    broken = _BrokenRows()
    further = 0
    try:
        for line, wrong in rows:
            if wrong is not None:
                broken.lines.append(line)
                broken.why = broken.why or wrong
            further += bool(broken.lines)
            if further > _MOST_FURTHER_ROWS:
                broken.is_all = False
                break
    except (OSError, EOFError, UnicodeError, csv.Error):
        if not broken.lines:
            raise
        broken.is_all = False
    return broken


def _spark_reason(text: str) -> str:
    mismatch = _MISMATCH_VALUE.search(text)
    if mismatch:
        return f"{mismatch[1]} is {mismatch[2]!r}, which does not fit its type"
    record = _RECORD.search(text)
    return f"Spark cannot read the row {record[1]}" if record else "Spark cannot read one of its rows"


def _check_rows(path: str, reading: ReadOptions, columns: Columns) -> Iterator[tuple[int, str | None]]:
    """Yield the line number of each row of a file with its error or None; for XML only the first error.

    Formats without lines yield nothing. Lines that cannot be parsed are left out if EXPECT parsed() handles them.
    """
    reading = replace(reading, keeps_unread=keeps_unread(columns))
    (shape,) = shapes_of([path], reading, columns)
    types = {
        taken.source: taken.type
        for taken in match(columns, shape.found, where=path).taken
        if taken.is_typed and not _has_pattern(taken.type, reading)
    }
    if shape.format == "csv":
        yield from _check_csv_rows(path, reading, [found.name for found in shape.found], types)
    if shape.format == "json" and reading.is_multiline:
        yield from _check_document(path, reading)
    elif shape.format == "json":
        yield from _check_json_rows(path, reading, {} if reading.rows else types)
    if shape.format == "fixed":
        yield from _check_fixed_rows(path, reading, types)
    if shape.format == "xml":
        with open_decompressed(path) as file:
            fault = first_fault(file, reading.encoding)
        if fault:
            yield fault


def _has_pattern(type_text: str, reading: ReadOptions) -> bool:
    """Return whether the options declare a Spark datetime pattern for a type. Such values are not checked here."""
    kind = type_text.lower()
    return bool(reading.date_format if kind == "date" else kind.startswith("timestamp") and reading.timestamp_format)


def _check_csv_rows(
    path: str, reading: ReadOptions, names: list[str], types: Mapping[str, str]
) -> Iterator[tuple[int, str | None]]:
    delimiter = reading.delimiter_of(path)
    with open_text(path, reading.encoding) as file:
        found = split_records(lines_of(file), quotes_of(reading, delimiter))
        for record in islice(found, int(reading.has_header), None):
            row = next(csv.reader([record.text], delimiter=delimiter, **reading.dialect), [])
            if record.is_open or len(row) != len(names):
                if not reading.keeps_unread:
                    wrong = f"it has {len(row)} fields where {len(names)} are expected"
                    yield record.line, "a quote in it is not closed" if record.is_open else wrong
                continue
            values = {name: value for name, value in zip(names, row, strict=True) if value not in ("", reading.null)}
            yield record.line, _find_mismatches(values, types, reading)


def _check_json_rows(path: str, reading: ReadOptions, types: Mapping[str, str]) -> Iterator[tuple[int, str | None]]:
    for number, line in _read_numbered_lines(path, reading):
        try:
            document = _parse_json(line)
        except (ValueError, RecursionError) as error:
            if not reading.keeps_unread:
                yield number, _describe_json_error(error)
            continue
        if not isinstance(document, dict):
            if not reading.keeps_unread:
                yield number, "it is not a JSON object"
            continue
        plain = {key: str(value) for key, value in document.items() if isinstance(value, str | int | float)}
        yield number, _find_mismatches(plain, types)


def _check_document(path: str, reading: ReadOptions) -> Iterator[tuple[int, str | None]]:
    with open_text(path, reading.encoding) as file:
        try:
            text = file.read()
            _parse_json(text)
        except json.JSONDecodeError as error:
            yield error.lineno, _describe_json_error(error)
        except _LongNumberError as error:
            yield text.count("\n", 0, text.find(error.number)) + 1, _describe_json_error(error)
        except RecursionError as error:
            yield 1, _describe_json_error(error)


class _LongNumberError(ValueError):
    """A number with more digits than Spark reads."""

    def __init__(self, number: str, digits: int) -> None:
        super().__init__(f"it has a number of {digits:,} digits, and at most {_MOST_DIGITS:,} can be read")
        self.number = number


def _parse_json(text: str) -> Any:
    """Parse JSON within Spark's limits. Raises ValueError, and RecursionError if it is nested too deep."""
    document = json.loads(text, parse_int=_parse_integer, parse_float=_parse_float)
    require_depth(text)
    return document


def _parse_integer(text: str) -> int:
    return int(_require_short_number(text))


def _parse_float(text: str) -> float:
    return float(_require_short_number(text))


def _require_short_number(text: str) -> str:
    """Return the text of a number. Raises _LongNumberError, before Python refuses more than 4,300 digits."""
    digits = sum(map(str.isdigit, text)) if len(text) > _MOST_DIGITS else 0
    if digits > _MOST_DIGITS:
        raise _LongNumberError(text, digits)
    return text


def _describe_json_error(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return str(error) if isinstance(error, _LongNumberError) else f"it is not JSON: {error}"


def _check_fixed_rows(path: str, reading: ReadOptions, types: Mapping[str, str]) -> Iterator[tuple[int, str | None]]:
    width = width_of(reading)
    for number, line in _read_numbered_lines(path, reading):
        text = line.rstrip("\r\n")
        if width is not None and text[width:].strip():
            yield number, f"it continues after character {width}, where its last field ends"
            continue
        fields = {each.name: text[each.first - 1 : each.last].strip() for each in reading.positions}
        there = {name: value for name, value in fields.items() if value not in ("", reading.null)}
        yield number, _find_mismatches(there, types, reading)


def _read_numbered_lines(path: str, reading: ReadOptions) -> Iterator[tuple[int, str]]:
    with open_text(path, reading.encoding) as file:
        for number, line in enumerate(lines_of(file), 1):
            if line.strip():
                yield number, line


def _find_mismatches(
    values: Mapping[str, str], types: Mapping[str, str], reading: ReadOptions = _SQL_NUMBERS
) -> str | None:
    for name, value in values.items():
        if name not in types:
            continue
        text = normalize_number(value, reading) if is_number(types[name]) else value
        if text is None or not _fits_type(text, types[name].lower()):
            return f"{name} is {value!r}, which is not {types[name]}"
    return None


def _fits_type(value: str, type_name: str) -> bool:
    kind = type_name.partition("(")[0]
    try:
        if kind in _INTEGERS:
            return re.fullmatch(r"[+-]?[0-9]+", value) is not None and _in_range(int(value), _INTEGERS[kind])
        if kind == "boolean":
            return value.lower() in ("true", "false")
        if (decimal := decimal_of(type_name)) is not None:
            return _fits_decimal(Decimal(value.strip()), *decimal)
        if kind in _PARSERS:
            _PARSERS[kind](value.strip())
    except (ValueError, InvalidOperation):
        return False
    return True


def _fits_decimal(number: Decimal, digits: int, places: int) -> bool:
    """Return whether a DECIMAL with this many digits and places can represent a number without rounding."""
    exponent = number.normalize(_ALL_DIGITS).as_tuple().exponent
    return isinstance(exponent, int) and -exponent <= places and abs(number) < 10 ** (digits - places)


def _in_range(number: int, bits: int) -> bool:
    return -(1 << bits) <= number < (1 << bits)


_PARSERS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("float", "double", "real"), float),
    "binary": partial(b64decode, validate=True),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), datetime.fromisoformat),
}
