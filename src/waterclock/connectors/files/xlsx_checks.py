"""Checks the cells of an .xlsx sheet before calamine reads it: used range, errors, duplicates, missing results.

Calamine allocates the whole used range of a sheet, so two cells that are far apart could fill the memory. It reads
errors such as #N/A as empty cells, as well as formulas without a stored result, which workbooks that were written by a
program may contain.

A sheet must contain each cell and row only once. If a cell occurs twice, calamine reads the last one, and Excel reports
a damaged file.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO
from xml.parsers import expat

from waterclock.connectors.files.sheet_size_limits import (
    MOST_CELLS,
    MOST_COLUMNS,
    MOST_ROWS,
    UsedRange,
    raise_doctype_error,
)

_CHUNK = 1 << 20
_BOOK, _TARGETS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
_TAG = re.compile(rb"[<:](?:row|c)[\s/>]")
_PLAIN_TAG = re.compile(rb"<(?:row|c) r=\"([A-Z]{0,3}[1-9][0-9]{0,6})\"")
_PLACE = re.compile(r"([A-Za-z]{1,3})([0-9]{1,7})", re.ASCII)
_LETTERS, _DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"0123456789"
_FORMULA = re.compile(rb"<f[\s/>]")
# a result has a visible ASCII character, which no program takes for a blank
_FORMULA_WITH_RESULT = re.compile(
    rb"<f(?:\s[^<>]*)?(?:/>|>[^<]*+</f>)<v>(?=[^!-%'-;=-~<&]*+[!-%'-;=-~])[^<&]*+</v></c>"
)
_UNUSUAL = (b't="e"', b":f", b"t='", b"<!DOCTYPE", b"\0", b"t =")


@dataclass(slots=True)
class FormulaCells:
    """The cells of a sheet that calamine would read as empty: errors and formulas without a result.

    `unreckoned`: the first cell that has a formula but no stored result, such as `B3`; None if there is none. `errors`:
    the texts of error cells, such as #N/A, by row and column, counted from 0.
    """

    unreckoned: str | None = None
    errors: dict[int, dict[int, str]] = field(default_factory=dict)


def check_cells(file: IO[bytes], sheet: str) -> FormulaCells:
    """Check the cells of a sheet; the result is empty for files that are not .xlsx.

    Raises E882 for a used range of more than `MOST_CELLS`; ValueError for XML that is broken or has a DOCTYPE, and for
    a cell or a row that the sheet has twice.
    Cost: the sheet is unpacked once or twice, in bounded memory except for its errors.
    """
    found = FormulaCells()
    if not zipfile.is_zipfile(file):
        return found
    file.seek(0)
    with zipfile.ZipFile(file) as packed:
        paths = list(_sheet_paths(packed, sheet))
        for path in paths:
            with packed.open(path) as content:
                if _is_plain_and_small(content):
                    continue
            with packed.open(path) as content:
                _CellParser(found).parse(content)
        if len(paths) > 1:
            found.errors.clear()  # some belong to other sheets
    return found


def _is_plain_and_small(content: IO[bytes]) -> bool:
    """Return whether a fast scan finds a small used range, complete addresses, and no cell that needs a closer check.

    It may return False for a harmless sheet, but True only if `_CellParser` would find nothing.
    """
    bottom, letters = 0, set[bytes]()
    last_row = set[bytes]()  # its addresses, because the row may continue in the next chunk
    before, is_last = b"", False
    while not is_last:
        chunk = content.read(_CHUNK)
        is_last = not chunk
        text = before + chunk
        end = text.rfind(b"</c>")
        cut = text.rfind(b"<") if is_last or end < 0 else end + len(b"</c>")  # a formula is not cut from its result
        if cut < 0 or len(text) - cut > _CHUNK or any(mark in text for mark in _UNUSUAL):
            return False
        before, text = text[cut:], text[:cut]
        if len(_FORMULA.findall(text)) != len(_FORMULA_WITH_RESULT.findall(text)):
            return False
        places = _PLAIN_TAG.findall(text)
        if len(places) != len(_TAG.findall(text)):
            return False
        if places:
            once, joined = set(places), b" ".join(places)
            rows = set(map(int, set(joined.translate(None, _LETTERS).split())))
            if len(once) < len(places) or not once.isdisjoint(last_row) or min(rows) < bottom:
                return False
            if len(rows) > 1 or bottom not in rows:
                last_row.clear()
            bottom = max(rows)
            number = str(bottom).encode()
            last_row.update(place for place in places if place.endswith(number))
            letters.update(joined.translate(None, _DIGITS).split())
    if _TAG.search(before):
        return False
    right = max((_column_of(each.decode()) for each in letters), default=-1) + 1
    return bottom <= MOST_ROWS and right <= MOST_COLUMNS and bottom * right <= MOST_CELLS


class _CellParser:
    """Parses a sheet as calamine does, and records its error cells and its first formula without a result."""

    def __init__(self, found: FormulaCells) -> None:
        self._found = found
        self._used = UsedRange()
        self._row, self._column = -1, 0
        self._next_column = 0
        self._row_bits: dict[int, int] = {}  # the bits of a row: 1 for itself, and 2 << column
        self._kind = ""
        self._has_formula = self._reads_value = False
        self._text: list[str] = []
        self._parser = parser = expat.ParserCreate("UTF-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = raise_doctype_error

    def parse(self, content: IO[bytes]) -> None:
        """Parse the sheet up to its end, or to the first formula without a result."""
        try:
            while self._found.unreckoned is None and (chunk := content.read(_CHUNK)):
                self._parser.Parse(chunk, False)  # noqa: FBT003 - expat's own
        except expat.ExpatError as error:
            raise ValueError(f"the XML of its sheet cannot be read: {error}") from error
        self._end_cell()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(":")[2] if ":" in name else name
        if tag == "v":
            self._reads_value = self._kind == "e" or self._has_formula
            self._used.add(self._row, self._column)
            if self._reads_value:
                self._parser.CharacterDataHandler = self._text.append
        elif tag == "c":
            self._end_cell()
            self._kind = attributes.get("t", "")
            if "r" in attributes:
                self._row, self._column = _place_of(attributes["r"])
            else:
                self._row, self._column = max(self._row, 0), self._next_column
            self._next_column = self._column + 1
            self._require_no_duplicate(2 << self._column)
        elif tag == "row":
            self._end_cell()
            address = attributes.get("r")
            self._row = self._row + 1 if address is None else _row_of(address)
            self._column = self._next_column = 0
            self._require_no_duplicate(1)
        elif tag == "f":
            self._has_formula = True
            self._used.add(max(self._row, 0), self._column)
        elif tag == "is":
            self._has_formula = False
            self._used.add(self._row, self._column)

    def _require_no_duplicate(self, bit: int) -> None:
        known = self._row_bits.get(self._row, 0)
        if known & bit:
            place = (
                f"the row {self._row + 1}" if bit == 1 else f"the cell {column_letters(self._column)}{self._row + 1}"
            )
            raise ValueError(f"it has {place} twice, and programs differ in which of them they show")
        self._row_bits[self._row] = known | bit

    def _end(self, name: str) -> None:
        if self._reads_value:
            self._parser.CharacterDataHandler = None
        elif name.endswith("sheetData"):  # the formulas that follow belong to validations and sparklines, not to cells
            self._end_cell()
            self._parser.StartElementHandler = self._parser.EndElementHandler = None

    def _end_cell(self) -> None:
        text = "".join(self._text).strip() if self._text else ""
        if self._has_formula and not text and self._kind != "str" and self._found.unreckoned is None:
            self._found.unreckoned = f"{column_letters(self._column)}{self._row + 1}"
        elif self._reads_value and text and self._kind == "e":
            self._found.errors.setdefault(self._row, {})[self._column] = text
        self._kind, self._has_formula, self._reads_value = "", False, False
        if self._text:
            self._text = []


def _place_of(address: str) -> tuple[int, int]:
    place = _PLACE.fullmatch(address)
    if place is None:
        raise ValueError(f"it has a cell {address[:20]}, which is outside of any sheet")
    return _row_of(place[2]), _column_of(place[1])


def _row_of(address: str) -> int:
    if not (address.isascii() and address.isdecimal() and len(address) <= len(str(MOST_ROWS)) and int(address)):
        raise ValueError(f"it has a row {address[:20]}, which is outside of any sheet")
    return int(address) - 1


def _column_of(letters: str) -> int:
    column = 0
    for letter in letters.upper():
        column = column * 26 + ord(letter) - 64  # A is 65
    return column - 1


def column_letters(column: int) -> str:
    """Return the letters of a column by its number, from 0: `A` for 0, `AA` for 26."""
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _sheet_paths(packed: zipfile.ZipFile, sheet: str) -> Iterator[str]:
    """Yield the path of a sheet within the zip, or all candidates if the workbook does not name exactly one.

    Raises ValueError if the zip is ambiguous, so that different programs would read different members.
    """
    by_name = {name.replace("\\", "/").casefold(): name for name in packed.namelist()}
    if len(by_name) < len(packed.namelist()):
        raise ValueError("it has two members of the same name")
    if _BOOK not in by_name:
        return
    path = _sheet_path(packed, sheet, by_name)
    if path is not None:
        yield path
        return
    for name in packed.namelist():
        with packed.open(name) as content:
            head = content.read(_CHUNK)
        if b"sheetData" in head:
            yield name


def _sheet_path(packed: zipfile.ZipFile, sheet: str, by_name: Mapping[str, str]) -> str | None:
    if not {_BOOK, _TARGETS} <= by_name.keys():
        return None
    sheets = [one for one in _elements(packed.read(by_name[_BOOK]), "sheet") if one.get("name") == sheet]
    ids = {value for one in sheets for key, value in one.items() if key.rpartition(":")[2] == "id"}
    content = packed.read(by_name[_TARGETS])
    targets = [one.get("Target", "") for one in _elements(content, "Relationship") if one.get("Id") in ids]
    if len(sheets) != 1 or len(targets) != 1:
        return None
    # calamine neither resolves a path nor decodes entities in it
    path = targets[0].removeprefix("/") if targets[0].startswith("/") else f"xl/{targets[0]}"
    if not {"", ".", ".."}.isdisjoint(path.split("/")) or "\\" in path or targets[0].encode() not in content:
        raise ValueError(f"the path of its sheet is {targets[0][:100]!r}, and programs differ in how they read it")
    return by_name.get(path.casefold())


def _elements(content: bytes, tag: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []

    def begin(name: str, attributes: dict[str, str]) -> None:
        if name.rpartition(":")[2] == tag:
            found.append(attributes)

    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    try:
        parser.Parse(content, True)  # noqa: FBT003 - expat's own
    except expat.ExpatError:
        return []  # the library reports the error
    return found
