"""Reads the columns of files from their headers, without Spark, and groups files that can share a scan.

Spark reads CSV by position, so the header of each file is read here first. Files with equal headers share a scan, and
columns are combined by name.
"""

from __future__ import annotations

import csv
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from waterclock.connectors.column_matching import SourceColumn
from waterclock.connectors.files import avro_reading, excel_reading
from waterclock.connectors.files.encodings import open_decompressed, open_text
from waterclock.connectors.files.file_name_matching import FORMATS, format_of
from waterclock.connectors.files.json_records import find_records
from waterclock.connectors.files.reading_options import ReadOptions, wrong_of_xml
from waterclock.connectors.files.xml_documents import columns_in, require_no_entities
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import map_each, open_for_reading, stat_file
from waterclock.files.object_stores import is_remote
from waterclock.flow.declarations import Columns
from waterclock.json_depth import require_depth
from waterclock.spark_sql import column_name

_MOST_PARSED = 8 << 20
_MOST_CHARACTERS = 128 << 20  # the maximum characters of a JSON document, or of a line
_HEAD_SIZE, _MOST_HEADS = 64 << 10, 100


@dataclass(frozen=True, slots=True)
class FileShape:
    """The format and the columns of files that one scan can read together.

    `found` are the known columns; `is_whole`: these are all columns of the files. `is_by_record`: CSV that is read
    record by record, because its rows may span lines or Spark does not support its encoding; it has `compression`.
    """

    format: str
    delimiter: str
    found: tuple[SourceColumn, ...]
    is_whole: bool = True
    is_by_record: bool = False
    compression: str = ""


def shapes_of(
    paths: Sequence[str],
    reading: ReadOptions,
    columns: Columns,
    *,
    keys_of_many: Callable[[str, Sequence[str]], Mapping[str, str]] | None = None,
    by_record: Callable[[Sequence[str]], AbstractSet[str]] | None = None,
) -> Mapping[FileShape, list[str]]:
    """Group the files that one scan can read together: those with equal format and columns, in the given order.

    JSON has no header. Files of up to 8 MB (unpacked, together) are read completely for their keys. For larger ones
    `keys_of_many` infers the keys, if the column list is open, or if a declared column is missing in the beginnings of
    the files in its exact spelling, because Spark matches no other spelling. Otherwise undeclared keys remain unknown.
    `by_record` returns the CSV files that must be read record by record.
    Raises E807 for a file whose header cannot be read, E809 for formats that cannot be combined.
    """
    formats = {FORMATS[kind[0]] for path in paths if (kind := format_of(Path(path).name))}
    if len(formats) != 1:
        raise WaterclockError(
            "E809",
            f"files of several formats: {', '.join(sorted(formats))}",
            where=paths[0] if paths else None,
            why="all files of a unit are read in one format",
            fix="declare a COLLECT with its own glob for each format",
        )
    if formats == {"json"}:
        return {_json_shape(paths, reading, columns, keys_of_many): list(paths)}
    if formats == {"xml"}:
        return {_xml_shape(paths, reading, columns, keys_of_many): list(paths)}
    if formats == {"fixed"}:
        return {
            FileShape("fixed", "", tuple(SourceColumn(position.name) for position in reading.positions)): list(paths)
        }

    def shape_of(path: str) -> FileShape:
        if formats == {"csv"}:
            return _csv_shape(path, reading, columns)
        if formats == {"avro"}:
            return FileShape("avro", "", _read_columns(path, avro_reading.columns_of))
        if formats == {"excel"}:
            return FileShape("excel", "", _read_columns(path, sheet_columns))
        return _parquet_shape(path)

    def sheet_columns(file: IO[bytes]) -> tuple[SourceColumn, ...]:
        names = excel_reading.columns_of(file, reading, [column.name for column in columns.named])
        return tuple(map(SourceColumn, names))

    shapes: dict[FileShape, list[str]] = {}
    apart = by_record(paths) if by_record is not None and formats == {"csv"} else frozenset[str]()
    for path, shape in zip(paths, map_each(paths, shape_of, at=paths[0]), strict=True):
        if path in apart:
            kind = format_of(Path(path).name)
            shape = replace(shape, is_by_record=True, compression=kind[1] if kind else "")  # noqa: PLW2901
        shapes.setdefault(shape, []).append(path)
    return shapes


def unreadable_file_error(path: str, error: BaseException) -> WaterclockError:
    """Build the error for a file that cannot be read. It is transient if the file no longer exists."""
    if isinstance(error, FileNotFoundError):
        return WaterclockError(
            "E807",
            f"cannot read {Path(path).name}",
            where=path,
            why="it existed when the batch was planned, and is gone now",
            fix="nothing to fix if another table has archived it: it is read there at the next attempt",
            transient=True,
        )
    return WaterclockError(
        "E807",
        f"cannot read {Path(path).name}",
        where=path,
        why=str(error) or type(error).__name__,
        fix="deliver the file again under the same name, or remove it from its folder; no row of it was collected",
    )


def _csv_shape(path: str, reading: ReadOptions, columns: Columns) -> FileShape:
    delimiter = reading.delimiter_of(path)
    try:
        with open_text(path, reading.encoding) as file:
            first = next(csv.reader(_skip_blank_lines(file), delimiter=delimiter, **reading.dialect), None)
    except (OSError, EOFError, UnicodeError, csv.Error) as error:
        raise unreadable_file_error(path, error) from error
    if not first:
        raise unreadable_file_error(path, EOFError("it has no header" if reading.has_header else "it is empty"))
    if not reading.has_header:
        names = [column.name for column in columns.named][: len(first)]
        first = names + [f"column_{place}" for place in range(len(names) + 1, len(first) + 1)]
    return FileShape("csv", delimiter, tuple(SourceColumn(name) for name in first))


def _skip_blank_lines(file: IO[str]) -> Iterator[str]:
    """Yield the lines that are not blank, as Spark does. Raises csv.Error for a line that is too long."""
    while line := file.readline(_MOST_PARSED):
        if len(line) == _MOST_PARSED:
            raise csv.Error(f"its first line is longer than {_MOST_PARSED} characters")
        if line.strip():
            yield line


def _read_columns(path: str, read: Callable[[IO[bytes]], tuple[SourceColumn, ...]]) -> tuple[SourceColumn, ...]:
    """Read the columns of a file with `read`. Convert errors of the library to errors that name the file."""
    try:
        with open_for_reading(path) as file:
            return read(file)
    except WaterclockError as error:
        what = f"{Path(path).name} is too large" if error.code == "E882" else error.what
        raise WaterclockError(error.code, what, where=path, why=error.why, fix=error.fix) from error
    except (OSError, EOFError, ValueError, LookupError) as error:
        raise unreadable_file_error(path, error) from error


def _parquet_shape(path: str) -> FileShape:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(open_for_reading(path) if is_remote(path) else path)
        columns = tuple(SourceColumn(field.name, str(field.type)) for field in schema)
    except UnicodeDecodeError as error:
        raise unreadable_file_error(path, ValueError(f"the name of a column is not UTF-8: {error}")) from error
    except (OSError, pa.ArrowException) as error:
        raise unreadable_file_error(path, error) from error
    return FileShape("parquet", "", columns)


def _json_shape(
    paths: Sequence[str],
    reading: ReadOptions,
    columns: Columns,
    keys_of_many: Callable[[str, Sequence[str]], Mapping[str, str]] | None,
) -> FileShape:
    declared = [column.name for column in columns.named]
    keys: Iterable[str] = ()
    is_whole = True
    if keys_of_many is None or _are_small(paths):
        keys = _json_keys(paths, reading)
    elif columns.is_open or not _has_exact_keys(paths, reading, declared):
        keys = keys_of_many("json", paths)
    else:
        is_whole = False
    known = dict.fromkeys(sorted(keys if columns.is_open else _merge_spellings(keys, declared)))
    lower = {key.lower() for key in known}
    requested = [*declared, *(outer.name for outer in reading.outer)]
    found = tuple(
        SourceColumn(name) for name in [*known, *dict.fromkeys(d for d in requested if d.lower() not in lower)]
    )
    return FileShape("json", "", found, is_whole)


def _has_exact_keys(paths: Sequence[str], reading: ReadOptions, declared: Sequence[str]) -> bool:
    """Return whether each declared column is a key, in its exact spelling, at the beginning of one of the files."""
    missing = set(declared)
    for path in paths[:_MOST_HEADS]:
        try:
            with open_text(path, reading.encoding) as file:
                head = file.read(_HEAD_SIZE)
        except (OSError, EOFError, UnicodeError) as error:
            raise unreadable_file_error(path, error) from error
        missing -= {name for name in missing if re.search(rf'"{re.escape(name)}"\s*:', head)}
        if not missing:
            return True
    return not missing


def _merge_spellings(keys: Iterable[str], declared: Iterable[str]) -> set[str]:
    """Keep one spelling of each key, because columns whose names differ only by case would clash.

    If `userId` and `userid` occur and one of them is a declared column, only that one remains. If the declared column
    has a third spelling, both remain, and clash.
    """
    declared_exact, declared_lower = set(declared), {name.lower() for name in declared}
    alike: dict[str, set[str]] = {}
    for key in keys:
        alike.setdefault(column_name(key).lower(), set()).add(key)
    kept: set[str] = set()
    for name, group in alike.items():
        kept |= (group & declared_exact or group) if name in declared_lower else {min(group)}
    return kept


def _xml_shape(
    paths: Sequence[str],
    reading: ReadOptions,
    columns: Columns,
    keys_of_many: Callable[[str, Sequence[str]], Mapping[str, str]] | None,
) -> FileShape:
    """Return the `FileShape` of XML files, with the declared columns and those in the files.

    Small files are parsed here. Otherwise Spark infers the columns, if the column list is open.
    Raises E338 without the option `rows`, E335 for options that XML does not support, E880 for declared entities.
    """
    if not reading.rows:
        raise WaterclockError(
            "E338",
            f"the rows of {Path(paths[0]).name} are not declared",
            where=paths[0],
            why="an XML document does not show which of its elements are rows",
            fix="name the element of a row, as in OPTIONS (rows 'order')",
        )
    if (wrong := wrong_of_xml(reading)) is not None:
        raise wrong

    def check_entities(path: str) -> None:
        try:
            with open_decompressed(path) as file:
                require_no_entities(file, path, reading.encoding)
        except (OSError, EOFError) as error:
            raise unreadable_file_error(path, error) from error

    map_each(paths, check_entities, at=paths[0])
    known: Mapping[str, str] = {}
    is_small = _are_small(paths)
    if is_small:
        for path in paths:
            with open_decompressed(path) as file:
                found = columns_in(file, reading.rows[-1], reading.encoding)
            lists = {name for name, kind in (*found.items(), *known.items()) if kind != "STRING"}
            known = {name: "ARRAY<STRING>" if name in lists else "STRING" for name in (*known, *found)}
    elif keys_of_many is not None and columns.is_open:
        known = keys_of_many("xml", paths)
    lower = {key.lower() for key in known}
    declared = [column.name for column in columns.named if column.name.lower() not in lower]
    every = [*(SourceColumn(name, kind) for name, kind in known.items()), *map(SourceColumn, declared)]
    return FileShape("xml", "", tuple(every), is_whole=is_small or columns.is_open)


def _are_small(paths: Sequence[str]) -> bool:
    """Return whether files have at most 8 MB together, the unpacked content of compressed files included."""
    room = _MOST_PARSED - sum(map_each(paths, _size_of, at=paths[0]))

    def unpack(path: str) -> None:
        nonlocal room  # threads may lose some of each other's updates: the limit only saves time
        kind = format_of(Path(path).name)
        if room < 0 or kind is None or not kind[1]:
            return
        try:
            with open_decompressed(path) as file:
                while room >= 0 and (chunk := file.read(_HEAD_SIZE)):
                    room -= len(chunk)
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable_file_error(path, error) from error

    map_each(paths, unpack, at=paths[0])
    return room >= 0


def _size_of(path: str) -> int:
    try:
        return stat_file(path).size
    except FileNotFoundError as error:
        raise unreadable_file_error(path, error) from error


def _json_keys(paths: Sequence[str], reading: ReadOptions) -> set[str]:
    def keys_of(path: str) -> set[str]:
        keys: set[str] = set()
        missed = found = 0
        for document in json_documents(path, reading):
            if not reading.rows:
                keys.update(document)
                continue
            for record in find_records(document, reading):
                missed += record is None
                found += record is not None
                keys.update(record or ())
        if missed and not found:
            raise _no_records_error(path, reading)
        return keys

    return set().union(*map_each(paths, keys_of, at=paths[0]))


def _no_records_error(path: str, reading: ReadOptions) -> WaterclockError:
    return WaterclockError(
        "E887",
        f"{Path(path).name} has no {'.'.join(reading.rows)}",
        where=path,
        why="none of its documents has a value there",
        fix="correct the path in OPTIONS (rows '...'), or remove the file from the landing folder",
    )


def _require_length(text: str) -> None:
    if len(text) == _MOST_CHARACTERS:
        raise EOFError(f"a document of {_MOST_CHARACTERS} characters or more is not parsed")


def json_documents(path: str, reading: ReadOptions) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON file, in order. Skip other values and invalid lines, which Spark reports later."""
    try:
        with open_text(path, reading.encoding) as file:
            while text := file.read(_MOST_CHARACTERS) if reading.is_multiline else file.readline(_MOST_CHARACTERS):
                _require_length(text)
                try:
                    parsed = json.loads(text) if text.strip() else None
                    require_depth(text)
                except (ValueError, RecursionError):
                    continue
                for document in parsed if isinstance(parsed, list) else [parsed]:
                    if isinstance(document, dict):
                        yield document
    except (OSError, EOFError, UnicodeError) as error:
        raise unreadable_file_error(path, error) from error
