"""Parses and checks the OPTIONS of a COLLECT from files. `waterclock check` uses it, so it imports no heavy library."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waterclock.connectors.files.file_name_matching import format_of
from waterclock.connectors.files.sheet_rows import Cells
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import InvalidOption

_POSITION = re.compile(r"\s*(\S+)\s+([0-9]+)\s*-\s*([0-9]*)\s*")
_RANGE = re.compile(r"([A-Za-z]{1,3})([1-9][0-9]{0,6})(?::([A-Za-z]{1,3})([1-9][0-9]{0,6})?)?")
ROOM = "_unpacked"
COPIES = "_copies"
_MOST_MB = 4096
_SIGNS = {"delimiter": "';'; a tab is itself between the quotes, and not \\t", "quote": "'\"'", "escape": "'\\'"}
_OUTER = re.compile(r"\s*([^\s,]+)(?:\s+AS\s+([^\s,]+))?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Position:
    """A field of fixed width, from the character `first` (from 1) to `last`, or to the end of the line if None."""

    name: str
    first: int
    last: int | None


@dataclass(frozen=True, slots=True)
class Outer:
    """A value outside of the JSON records that becomes the column `name` of each record.

    `depth` is the number of steps that its path shares with the path of the records. `rest` are its remaining steps.
    """

    name: str
    depth: int
    rest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The parsed OPTIONS of a COLLECT from files.

    `room` is a folder for unpacked zips and for copies of files below `landing` that another user can change.
    `keeps_unread`: a line that cannot be parsed becomes a row, instead of making its file fail.
    """

    has_header: bool = True
    delimiter: str | None = None
    quote: str = '"'
    escape: str = '"'
    encoding: str = "UTF-8"
    null: str = ""
    timestamp_format: str | None = None
    date_format: str | None = None
    decimal: str = "."
    thousands: str = ""
    is_multiline: bool = False
    rows: tuple[str, ...] = ()
    outer: tuple[Outer, ...] = ()
    positions: tuple[Position, ...] = ()
    member: str = ""
    sheet: str = ""
    cells: Cells | None = None
    merged: str = "refuse"
    most_bytes: int = _MOST_MB << 20
    room: Path | None = None
    landing: Path | None = None
    keeps_unread: bool = False

    @property
    def dialect(self) -> dict[str, Any]:
        """The options with which Python's `csv.reader` parses quotes as Spark does."""
        if not self.quote:
            return {"quoting": csv.QUOTE_NONE}
        escape = None if self.escape == self.quote else self.escape or None
        return {"quotechar": self.quote, "doublequote": escape is None, "escapechar": escape}

    def delimiter_of(self, path: str) -> str:
        """Return the declared delimiter, else a tab for .tsv files and a comma for others."""
        kind = format_of(path)
        return self.delimiter or ("\t" if kind and kind[0] == "tsv" else ",")

    @property
    def is_utf8(self) -> bool:
        """True if the files' encoding is UTF-8."""
        return self.encoding.upper() in ("UTF-8", "UTF8")


def parse_read_options(options: Mapping[str, Any]) -> ReadOptions:
    """Parse the OPTIONS of a COLLECT from files. Raises E335 for an invalid option."""

    def text(name: str, otherwise: str = "") -> str:
        value = options.get(name)
        return otherwise if value is None else str(value)

    rows = path_of(text("rows")) if text("rows") else ()
    return ReadOptions(
        has_header=bool(options.get("header", True)),
        delimiter=text("delimiter") or None,
        quote=text("quote", '"'),
        escape=text("escape", text("quote", '"')),  # a quote within quotes is doubled (RFC 4180)
        encoding=text("encoding", "UTF-8"),
        null=text("null"),
        timestamp_format=text("timestamp_format") or None,
        date_format=text("date_format") or None,
        decimal=text("decimal") or ".",
        thousands=text("thousands"),
        is_multiline=bool(options.get("multiline", False)),
        rows=rows,
        outer=outer_of(text("outer"), rows) if text("outer") else (),
        positions=positions_of(text("positions")) if text("positions") else (),
        member=text("member"),
        sheet=text("sheet"),
        cells=cells_of(text("range")) if text("range") else None,
        merged=text("merged", "refuse"),
        most_bytes=int(float(text("most_mb", str(_MOST_MB))) * (1 << 20)),
    )


def path_of(text: str) -> tuple[str, ...]:
    """Split a path such as `data.items` into its steps. Raises E335 for an empty step."""
    steps = tuple(step.strip() for step in text.split("."))
    if not all(steps):
        raise _unsupported_option_error(
            "rows", text, "a path is names with dots between them", "write it like rows 'data.items'"
        )
    return steps


def outer_of(text: str, rows: tuple[str, ...]) -> tuple[Outer, ...]:
    """Parse the option `outer`: paths of values outside of the records, as in `orders.id AS order_id, exported_at`.

    Raises E335 for an invalid path, and for one that leads to the records.
    """
    found: list[Outer] = []
    for part in text.split(","):
        match = _OUTER.fullmatch(part)
        if match is None:
            raise _unsupported_option_error(
                "outer", part, "it is a list of paths, each with a name", "write it like 'orders.id AS order_id'"
            )
        steps = path_of(match[1])
        depth = 0
        while depth < len(rows) and depth < len(steps) and rows[depth] == steps[depth]:
            depth += 1
        if depth == len(rows) or depth == len(steps):
            raise _unsupported_option_error(
                "outer", part, "it is within the records", "name a value outside of them, by its path from the root"
            )
        found.append(Outer(match[2] or steps[-1], depth, steps[depth:]))
    return tuple(found)


def positions_of(text: str) -> tuple[Position, ...]:
    """Parse the option `positions`, the fields of fixed-width lines: `id 1-6, name 7-30`. Raises E335."""
    found: list[Position] = []
    for part in text.split(","):
        match = _POSITION.fullmatch(part)
        last = int(match[3]) if match and match[3] else None
        if match is None or int(match[2]) < 1 or (last is not None and last < int(match[2])):
            raise _unsupported_option_error(
                "positions",
                part,
                "a field is a name with its first and last character",
                "write it like 'id 1-6, name 7-'",
            )
        found.append(Position(match[1], int(match[2]), last))
    return tuple(found)


def cells_of(text: str) -> Cells:
    """Parse the option `range` of a sheet: `B3`, `B3:F` or `B3:F100`. Raises E335 for an invalid range."""
    match = _RANGE.fullmatch(text.strip())
    cells = None
    if match is not None:
        bottom = int(match[4]) - 1 if match[4] else None
        cells = Cells(int(match[2]) - 1, _column(match[1]), bottom, _column(match[3]) if match[3] else None)
    is_backward = cells is not None and (
        (cells.bottom is not None and cells.bottom < cells.top)
        or (cells.right is not None and cells.right < cells.left)
    )
    if cells is None or is_backward:
        raise _unsupported_option_error(
            "range", text, "a range has a first cell and a last one", "write it like 'B3:F100', 'B3:F' or 'B3'"
        )
    return cells


def _column(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def find_read_option_errors(options: Mapping[str, Any], path: str) -> Iterator[InvalidOption]:
    """Yield those errors in the options of a COLLECT from files that can be found without reading a file."""
    yield from _wrong_signs(options)
    if options.get("outer") and not options.get("rows"):
        yield InvalidOption(
            "E336",
            "outer",
            "outer is set without rows",
            "it names values outside of the records, and rows is the path of the records",
            "add the path of the records, such as rows 'orders.lines'",
        )
        return
    found: list[str] = []
    for name in ("rows", "outer", "positions", "range"):
        if name == "outer" and found:
            continue
        needed = ("rows", "outer") if name == "outer" else (name,)
        try:
            parse_read_options({key: value for key, value in options.items() if key in needed})
        except WaterclockError as error:
            found.append(name)
            yield InvalidOption(error.code, name, error.what, error.why or "", error.fix or "")
    encoding = str(options.get("encoding") or "UTF-8")
    if not _is_encoding(encoding):
        why = "there is no encoding of that name"
        yield InvalidOption(
            "E335",
            "encoding",
            f"unknown encoding {encoding!r}",
            why,
            "write one such as encoding 'UTF-16' or 'windows-1252'",
        )
    kind = format_of(path)
    wanted = _REQUIRED_OPTIONS.get(kind[0]) if kind else None
    if wanted and not options.get(wanted[0]):
        yield InvalidOption("E338", "", f"{path} needs the option {wanted[0]}", wanted[1], wanted[2])
    if kind and kind[0] == "xml" and not found:
        reading = parse_read_options({name: options[name] for name in ("rows", "outer") if options.get(name)})
        if (wrong := wrong_of_xml(reading)) is not None:
            option = "rows" if len(reading.rows) > 1 else "outer"
            yield InvalidOption(wrong.code, option, wrong.what, wrong.why or "", wrong.fix or "")


def _wrong_signs(options: Mapping[str, Any]) -> Iterator[InvalidOption]:
    """Yield errors for a delimiter, quote or escape of CSV that is neither empty nor one character."""
    for name in ("delimiter", "quote", "escape"):
        sign = str(options.get(name) or "")
        if len(sign) > 1 or sign in {"\r", "\n"}:
            yield wrong_sign(name, sign, "it must be one character, and no line break")


def wrong_sign(name: str, sign: str, why: str) -> InvalidOption:
    """Build the error for an invalid delimiter, quote or escape of CSV."""
    return InvalidOption("E335", name, f"invalid {name} {sign!r}", why, f"write it like {name} {_SIGNS[name]}")


def _is_encoding(name: str) -> bool:
    try:
        return isinstance("".encode(name), bytes)
    except LookupError:
        return False


_RAW_OPTIONS = frozenset({"format", "stamp", "stamp_zone", "settle"})


def wrong_raw(options: Mapping[str, Any]) -> Iterator[InvalidOption]:
    """Yield errors for parsing options that are set with `format 'raw'`, which leaves files unchanged."""
    for name in sorted(options.keys() - _RAW_OPTIONS):
        yield InvalidOption(
            "E334", name, f"{name} is set with format 'raw'", "with format 'raw' the content of a file is not parsed",
            f"leave {name} out, or format 'raw'",
        )  # fmt: skip


_FIXED = ("positions", "fixed-width lines have no delimiter", "add OPTIONS (positions 'id 1-6, name 7-30')")
_REQUIRED_OPTIONS = {
    "xml": ("rows", "an XML document does not show which of its elements are rows", "add OPTIONS (rows 'order')"),
    **dict.fromkeys(("txt", "dat", "fwf"), _FIXED),
}


def wrong_of_xml(reading: ReadOptions) -> WaterclockError | None:
    """Return an error if `rows` is a path or `outer` is set, which XML does not support; else None."""
    text = ".".join(reading.rows)
    if len(reading.rows) > 1:
        why = "in XML all elements of one name are the rows, at any depth"
        return _unsupported_option_error("rows", text, why, f"write rows '{reading.rows[-1]}' to read all of them")
    if reading.outer:
        return _unsupported_option_error(
            "outer", reading.outer[0].name, "XML rows cannot get values from outside of them", "leave it out"
        )
    return None


def _unsupported_option_error(option: str, text: str, why: str, fix: str) -> WaterclockError:
    return WaterclockError("E335", f"invalid {option} {text.strip()!r}", why=why, fix=fix)
