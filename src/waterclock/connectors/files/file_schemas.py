"""Reads the columns of files from their heads, without Spark, and groups files that can share a scan.

CSV is read by position in Spark, so the header of each file is looked at here first: files whose headers agree share a
scan, and columns are put together by name.
"""

from __future__ import annotations

import csv
import gzip
import json
from bz2 import BZ2File
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import IO, cast

from waterclock.connectors.column_matching import Found
from waterclock.connectors.files.landed_names import FORMATS, format_of
from waterclock.errors import WaterclockError
from waterclock.filesystem import each_of, look, opened
from waterclock.flow.declarations import Columns
from waterclock.object_stores import is_remote
from waterclock.spark_sql import column_name

_LOOKED_THROUGH = 8 << 20


@dataclass(frozen=True, slots=True)
class Reading:
    """How the files of a unit are to be understood.

    `keeps_unread`: a line that cannot be read is a row of its own, and no reason to refuse its file.
    """

    has_header: bool = True
    delimiter: str | None = None
    quote: str = '"'
    escape: str = "\\"
    encoding: str = "UTF-8"
    null: str = ""
    timestamp_format: str | None = None
    date_format: str | None = None
    is_multiline: bool = False
    keeps_unread: bool = False

    def delimiter_of(self, path: str) -> str:
        """The declared delimiter, else a tab in .tsv files and a comma in others."""
        kind = format_of(path)
        return self.delimiter or ("\t" if kind and kind[0] == "tsv" else ",")


@dataclass(frozen=True, slots=True)
class Shape:
    """Files that one scan reads: all of one format, with the same columns at the same places.

    `is_whole`: these are all columns that they have.
    """

    format: str
    delimiter: str
    found: tuple[Found, ...]
    is_whole: bool = True


def shapes_of(
    paths: Sequence[str],
    reading: Reading,
    columns: Columns,
    *,
    keys_of_many: Callable[[Sequence[str]], Iterable[str]] | None = None,
) -> Mapping[Shape, list[str]]:
    """Put files together that one scan can read, in the order given.

    JSON has no head: up to 8 MB of files are read through for their keys; beyond, `keys_of_many` is asked if the list
    is open, and if it is closed, what it leaves out is not known.
    Raises  E807 for a file whose head cannot be read, E809 for formats that do not go together
    """
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
        return {_json_shape(paths, reading, columns, keys_of_many): list(paths)}

    def shape_of(path: str) -> Shape:
        return _csv_shape(path, reading, columns) if formats == {"csv"} else _parquet_shape(path)

    shapes: dict[Shape, list[str]] = {}
    for path, shape in zip(paths, each_of(paths, shape_of, at=paths[0]), strict=True):
        shapes.setdefault(shape, []).append(path)
    return shapes


def text_of(path: str, encoding: str) -> IO[str]:
    """Open a file as text, whatever its compression."""
    kind = format_of(Path(path).name)
    compression = kind[1] if kind else ""
    file = path if not is_remote(path) else opened(path)
    if compression == "gz":
        return cast("IO[str]", gzip.open(file, "rt", encoding=_python_encoding(encoding), newline=""))
    if compression == "bz2":
        return TextIOWrapper(BZ2File(file), encoding=_python_encoding(encoding), newline="")
    if compression == "zst":
        import pyarrow as pa

        stream = pa.input_stream(file, compression="zstd")
        return TextIOWrapper(cast("IO[bytes]", stream), encoding=_python_encoding(encoding), newline="")
    return TextIOWrapper(opened(path), encoding=_python_encoding(encoding), newline="")


def unreadable(path: str, error: BaseException) -> WaterclockError:
    """Return the error for a file that turned out not to be whole; a passing one where it has moved away."""
    if isinstance(error, FileNotFoundError):
        return WaterclockError(
            "E807",
            f"cannot read {Path(path).name}",
            where=path,
            why="it was there when the batch was planned, and is there no more",
            fix="nothing to mend where another table has archived it: it is read there at the next attempt",
            transient=True,
        )
    return WaterclockError(
        "E807",
        f"cannot read {Path(path).name}",
        where=path,
        why=str(error) or type(error).__name__,
        fix="deliver the file again under the same name, or take it out of the landing folder; nothing was taken of it",
    )


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
        schema = pq.read_schema(opened(path) if is_remote(path) else path)
    except (OSError, pa.ArrowInvalid) as error:
        raise unreadable(path, error) from error
    return Shape("parquet", "", tuple(Found(field.name, str(field.type)) for field in schema))


def _json_shape(
    paths: Sequence[str],
    reading: Reading,
    columns: Columns,
    keys_of_many: Callable[[Sequence[str]], Iterable[str]] | None,
) -> Shape:
    declared = [column.name for column in columns.named]
    keys: Iterable[str] = ()
    is_whole = True
    if keys_of_many is None or sum(each_of(paths, _size_of, at=paths[0])) <= _LOOKED_THROUGH:
        keys = _json_keys(paths, reading)
    elif columns.is_open:
        keys = keys_of_many(paths)
    else:
        is_whole = False
    known = dict.fromkeys(sorted(keys if columns.is_open else _apart(keys, declared)))
    lower = {key.lower() for key in known}
    found = tuple(Found(name) for name in [*known, *(d for d in declared if d.lower() not in lower)])
    return Shape("json", "", found, is_whole)


def _apart(keys: Iterable[str], declared: Iterable[str]) -> set[str]:
    """Leave out keys that no column list asks for and that would clash: any row may spell a key in its own way.

    Of `userId` and `userid` the one stays that is declared so; where none is declared exactly so, both do, and clash.
    """
    spelt, asked = set(declared), {name.lower() for name in declared}
    alike: dict[str, set[str]] = {}
    for key in keys:
        alike.setdefault(column_name(key).lower(), set()).add(key)
    kept: set[str] = set()
    for name, group in alike.items():
        kept |= (group & spelt or group) if name in asked else {min(group)}
    return kept


def _size_of(path: str) -> int:
    try:
        return look(path).size
    except FileNotFoundError as error:
        raise unreadable(path, error) from error


def _json_keys(paths: Sequence[str], reading: Reading) -> set[str]:
    def keys_of(path: str) -> set[str]:
        return {key for document in json_documents(path, reading) for key in document}

    return set().union(*each_of(paths, keys_of, at=paths[0]))


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
