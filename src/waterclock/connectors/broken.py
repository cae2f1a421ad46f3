"""Where exactly is the file broken that Spark stumbled over?

Spark names the file. The line and the column are found by reading that one file again, here.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from urllib.parse import unquote

from waterclock.connectors.columns import match
from waterclock.connectors.scanning import MISFIT
from waterclock.connectors.shapes import Reading, shapes_of, text_of, unreadable
from waterclock.errors import WaterclockError
from waterclock.flow import Columns

_FILE = re.compile(r"FAILED_READ_FILE[.A-Z_]*\] Encountered error while reading file (?:file:/*)?(/?.*?)\.(?:\s|$)")
_NO_PATH = re.compile(r"\[PATH_NOT_FOUND\] Path does not exist: (?:file:/*)?(/?.*?)\.(?:\s|$)")
_MISFIT = re.compile(re.escape(MISFIT) + r"\|(?:file:/*)?(.*?)\|")
_MISFIT_VALUE = re.compile(re.escape(MISFIT) + r"\|.*?\|(.*?)\|(.*?)(?: SQLSTATE|\n|$)")
_RECORD = re.compile(r"Malformed records are detected in record parsing: (.*?)\.?\s*\n?Parse Mode: FAILFAST")
_INTEGERS = {"tinyint": 7, "smallint": 15, "int": 31, "integer": 31, "bigint": 63, "byte": 7, "short": 15, "long": 63}


def explain(error: BaseException, reading: Reading, columns: Columns) -> WaterclockError | None:
    """Give the error of a broken file with its line and what is wrong there; None where no file is to blame.

    Raises  nothing
    Cost    one reading of the broken file
    """
    text = str(error)
    match_file = _MISFIT.search(text) or _FILE.search(text) or _NO_PATH.search(text)
    if match_file is None:
        return None
    path = "/" + unquote(match_file[1]).lstrip("/")
    if not Path(path).exists():
        return unreadable(path, FileNotFoundError())
    try:
        found = _first_broken(path, reading, columns)
    except WaterclockError as error_of_file:
        return error_of_file
    except (OSError, EOFError, UnicodeError, csv.Error) as reason:
        return unreadable(path, reason)
    line, why = found or (0, _what_spark_says(text))
    return WaterclockError(
        "E806",
        f"{Path(path).name} has a broken row" + (f" in line {line}" if line else ""),
        where=f"{path}:{line}" if line else path,
        why=why,
        fix="mend the file and deliver it again, or type the column as STRING and cast it in a transform by try_cast",
    )


def _what_spark_says(text: str) -> str:
    misfit = _MISFIT_VALUE.search(text)
    if misfit:
        return f"{misfit[1]} is {misfit[2]!r}, which is not of its type"
    record = _RECORD.search(text)
    return f"Spark cannot read the row {record[1]}" if record else "Spark cannot read one of its rows"


def _first_broken(path: str, reading: Reading, columns: Columns) -> tuple[int, str] | None:
    (shape,) = shapes_of([path], reading, columns)
    types = {taken.source: taken.type for taken in match(columns, shape.found, where=path).taken if taken.is_typed}
    if shape.format == "csv":
        return _first_broken_csv(path, reading, [found.name for found in shape.found], types)
    if shape.format == "json" and not reading.is_multiline:
        return _first_broken_json(path, reading, types)
    return None


def _first_broken_csv(
    path: str, reading: Reading, names: list[str], types: Mapping[str, str]
) -> tuple[int, str] | None:
    with text_of(path, reading.encoding) as file:
        rows = csv.reader(file, delimiter=reading.delimiter_of(path), quotechar=reading.quote or None)
        head = reading.has_header
        for row in rows:
            if not row:
                continue
            if head:
                head = False
                continue
            if len(row) != len(names):
                return rows.line_num, f"it has {len(row)} fields where {len(names)} are expected"
            values = {name: value for name, value in zip(names, row, strict=True) if value not in ("", reading.null)}
            if wrong := _misfits(values, types):
                return rows.line_num, wrong
    return None


def _first_broken_json(path: str, reading: Reading, types: Mapping[str, str]) -> tuple[int, str] | None:
    for number, line in _numbered(path, reading):
        try:
            document = json.loads(line)
        except ValueError as error:
            return number, f"it is no JSON: {error}"
        if not isinstance(document, dict):
            return number, "it is no JSON object"
        plain = {key: str(value) for key, value in document.items() if isinstance(value, str | int | float)}
        if wrong := _misfits(plain, types):
            return number, wrong
    return None


def _numbered(path: str, reading: Reading) -> Iterator[tuple[int, str]]:
    with text_of(path, reading.encoding) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line


def _misfits(values: Mapping[str, str], types: Mapping[str, str]) -> str | None:
    for name, value in values.items():
        if name in types and not _fits(value, types[name].lower()):
            return f"{name} is {value!r}, which is no {types[name]}"
    return None


def _fits(value: str, type_name: str) -> bool:
    kind = type_name.partition("(")[0]
    try:
        if kind in _INTEGERS:
            return re.fullmatch(r"[+-]?[0-9]+", value) is not None and _in_range(int(value), _INTEGERS[kind])
        if kind == "boolean":
            return value.lower() in ("true", "false")
        if kind in _PARSERS:
            _PARSERS[kind](value.strip())
    except (ValueError, InvalidOperation):
        return False
    return True


def _in_range(number: int, bits: int) -> bool:
    return -(1 << bits) <= number < (1 << bits)


_PARSERS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("float", "double", "real"), float),
    **dict.fromkeys(("decimal", "dec", "numeric"), Decimal),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), datetime.fromisoformat),
}
