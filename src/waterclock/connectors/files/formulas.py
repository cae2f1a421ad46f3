"""Finds cells of a sheet that calamine reads as empty: errors such as #N/A, and formulas without a stored value.

A workbook that was written by a program may contain formulas without their results.
"""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass, field
from posixpath import join, normpath
from typing import IO
from xml.parsers import expat

_CHUNK = 1 << 20
_BOOK, _TARGETS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
# a formula with an empty text as its result is recognized by its cell's type
_UNRECKONED = re.compile(
    rb"<c\b((?:(?!\bt=\"str\")[^>])*)>\s*<f\b(?:[^>]*/>|[^>]*>[^<]*</f>)\s*(?:<v\s*/>|<v>\s*</v>)?\s*</c>"
)
_ERROR = re.compile(rb"<c\b([^>]*\bt=\"e\"[^>]*)>\s*(?:<f\b(?:[^>]*/>|[^>]*>[^<]*</f>)\s*)?<v>\s*([^<]*?)\s*</v>")
_PLACE = re.compile(rb"\br=\"([A-Z]+)([0-9]+)\"")
_LONGEST = 1 << 14  # a formula of Excel has at most 8192 characters


@dataclass(slots=True)
class FormulaCells:
    """The first cell with a formula without a value, None if there is none; and errors by row and column, from 0."""

    unreckoned: str | None = None
    errors: dict[int, dict[int, str]] = field(default_factory=dict)


def find_formula_cells(file: IO[bytes], sheet: str) -> FormulaCells:
    """Check the cells of a sheet; the result is empty for files that are not .xlsx.

    Cost: the sheet is unpacked once, in bounded memory except for its errors
    """
    found = FormulaCells()
    if not zipfile.is_zipfile(file):
        return found
    file.seek(0)
    with zipfile.ZipFile(file) as packed:
        path = _path_of(packed, sheet)
        if path is None:
            return found
        with packed.open(path) as content:
            before = b""
            while chunk := content.read(_CHUNK):
                text = before + chunk
                if b"<f" in text and (cell := _UNRECKONED.search(text)):
                    place = _PLACE.search(cell[1])
                    found.unreckoned = (place[1] + place[2]).decode() if place else "of a row"
                    return found
                if b't="e"' in text:
                    _note_errors(text, found)
                before = text[-_LONGEST:]
    return found


def _note_errors(text: bytes, found: FormulaCells) -> None:
    for cell in _ERROR.finditer(text):
        if place := _PLACE.search(cell[1]):
            column = 0
            for letter in place[1]:
                column = column * 26 + letter - 64  # A is 65
            found.errors.setdefault(int(place[2]) - 1, {})[column - 1] = cell[2].decode(errors="replace")


def _path_of(packed: zipfile.ZipFile, sheet: str) -> str | None:
    names = set(packed.namelist())
    if not {_BOOK, _TARGETS} <= names:
        return None
    ids = {one.get("name"): one.get("r:id") for one in _elements(packed.read(_BOOK), "sheet")}
    targets = {one.get("Id"): one.get("Target", "") for one in _elements(packed.read(_TARGETS), "Relationship")}
    path = normpath(join("/xl", targets.get(ids.get(sheet), ""))).lstrip("/")
    return path if path in names else None


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
