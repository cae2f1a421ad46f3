"""Limits the size of a workbook's sheets in memory, before calamine reads them.

Calamine allocates the whole used range of a sheet, so two cells that are far apart could fill the memory.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from typing import IO, NoReturn
from xml.parsers import expat

from waterclock.errors import WaterclockError

MOST_CELLS = 1 << 25
"""The maximum number of cells in a used range. Calamine allocates 32 bytes for each, so 1 GiB."""
MOST_ROWS, MOST_COLUMNS = 1 << 20, 1 << 14
_CHUNK = 1 << 20
_ODS_MEMBER, _XLSB_MEMBER = "content.xml", "xl/workbook.bin"
_MOST_DIGITS = 10  # digits
_VALUE_ATTRIBUTES = frozenset(
    ("value-type", "value", "string-value", "date-value", "time-value", "boolean-value", "formula")
)
"""Attributes, without their prefix, for which calamine keeps a cell of an .ods. One of them is enough."""
# records of an .xlsb, by the numbers of [MS-XLSB]
_ROW, _CELLS, _SHEET_DATA = 0, range(2, 12), 0x91
_MOST_SIZE_BYTES = 4


@dataclass(slots=True)
class UsedRange:
    """The smallest range that contains all cells that were added."""

    top: int = MOST_ROWS
    left: int = MOST_COLUMNS
    bottom: int = -1
    right: int = -1

    def add(self, row: int, column: int) -> None:
        """Extend the range to a cell, counted from 0.

        Raises E882 if the range becomes too large; ValueError for a cell that no sheet can have.
        """
        if self.top <= row <= self.bottom and self.left <= column <= self.right:
            return
        if not (0 <= row < MOST_ROWS and 0 <= column < MOST_COLUMNS):
            raise ValueError(f"it has a cell in row {row + 1} and column {column + 1}, which is outside of any sheet")
        self.top, self.bottom = min(self.top, row), max(self.bottom, row)
        self.left, self.right = min(self.left, column), max(self.right, column)
        if self.size > MOST_CELLS:
            _raise_too_large(self.size)

    @property
    def size(self) -> int:
        """The number of cells in the range, empty ones included."""
        return max(0, self.bottom - self.top + 1) * max(0, self.right - self.left + 1)


def check_used_ranges(file: IO[bytes]) -> None:
    """Check the size of the used ranges of an .ods or .xlsb, as `xlsx_checks` does for an .xlsx.

    Raises E882 for ranges that are too large; ValueError for broken XML.
    """
    if zipfile.is_zipfile(file):
        file.seek(0)
        with zipfile.ZipFile(file) as packed:
            names = packed.namelist()
            if _ODS_MEMBER in names:
                with packed.open(_ODS_MEMBER) as content:
                    _OdsParser().parse(content)
            # a file may be both: calamine tries .xlsb before .ods
            if any(name.casefold() == _XLSB_MEMBER for name in names):
                for (
                    member
                ) in packed.infolist():  # any of them may be the sheet that is read, even several of the same name
                    _check_records(packed.read(member))
    file.seek(0)


def _check_records(content: bytes) -> None:
    """Raise E882 if the used range of an .xlsb member is too large. A member that is no sheet has no used range.

    A record consists of its type, its size and its content. The content of a row begins with the row's number, that of
    a cell with its column. Records are parsed as calamine does.
    """
    used, row = UsedRange(), 0
    at, end = 0, len(content)
    is_in_data = False
    while at < end:
        kind, size = content[at], content[at + 1] if at + 1 < end else 0
        if kind < 0x80 and size < 0x80:  # most records; `_number_at` takes three times as long
            at += 2
        else:
            kind, at = _number_at(content, at, 2)
            size, at = _number_at(content, at, _MOST_SIZE_BYTES)
        if kind == _SHEET_DATA:
            is_in_data = True
        elif is_in_data and kind == _ROW:
            row = int.from_bytes(content[at : at + 4], "little")
        elif is_in_data and kind in _CELLS:
            used.add(row, int.from_bytes(content[at : at + 4], "little"))
        at += size


def _number_at(content: bytes, at: int, longest: int) -> tuple[int, int]:
    """Decode a number of 7 bits per byte, lowest first, at an index. Return it and the index after it."""
    number = 0
    for place in range(longest):
        byte = content[at + place] if at + place < len(content) else 0
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    return number, at + longest


def _raise_too_large(size: int, where: str = "the used range of its sheet has") -> NoReturn:
    raise WaterclockError(
        "E882",
        "the workbook is too large",
        why=f"{where} {size} cells, including empty ones, and the limit is {MOST_CELLS}",
        fix="delete the cells that are far from the data, or split it, or send it as CSV or Parquet",
    )


class _OdsParser:
    """Counts the cells of all tables of an .ods, repetitions included, because calamine keeps all of them in memory."""

    def __init__(self) -> None:
        self._earlier = self._size = 0
        self._rows = self._width = self._column = self._repeat = 0
        self._parser = expat.ParserCreate("UTF-8")
        self._parser.StartElementHandler = self._start
        self._parser.StartDoctypeDeclHandler = raise_doctype_error

    def parse(self, content: IO[bytes]) -> None:
        """Parse all tables. Raises E882 if they are too large; ValueError for invalid XML."""
        try:
            while chunk := content.read(_CHUNK):
                self._parser.Parse(chunk, False)  # noqa: FBT003 - expat's own
        except expat.ExpatError as error:
            raise ValueError(f"the XML of its sheets cannot be read: {error}") from error

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(":")[2]
        if tag == "table":
            self._earlier += self._size
            self._size = self._rows = self._width = self._repeat = 0
        elif tag == "table-row":
            self._rows += self._repeat
            self._repeat, self._column = _repeats_of(attributes, "number-rows-repeated"), 0
        elif tag in {"table-cell", "covered-table-cell"}:
            self._column += _repeats_of(attributes, "number-columns-repeated")
            if any(each.rpartition(":")[2] in _VALUE_ATTRIBUTES for each in attributes):
                self._count()
        elif tag == "p":
            self._count()

    def _count(self) -> None:
        """Extend the used range to the current cell and the repetitions of its row.

        Raises E882 if it becomes too large.
        """
        self._width = max(self._width, self._column)
        self._size = (self._rows + self._repeat) * self._width
        if self._earlier + self._size > MOST_CELLS:
            _raise_too_large(self._earlier + self._size, "the used ranges of its sheets have")


def _repeats_of(attributes: dict[str, str], name: str) -> int:
    text = next((value for key, value in attributes.items() if key.rpartition(":")[2] == name), "1")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _MOST_DIGITS else 1 << 62


def raise_doctype_error(*_: object) -> NoReturn:
    """Raise an error for a DOCTYPE, which may define entities that grow without bound."""
    raise ValueError("its sheet has a DOCTYPE")
