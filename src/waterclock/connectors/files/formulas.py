"""Finds formulas that nobody has reckoned: a workbook that a program wrote may hold them without what they come to."""

from __future__ import annotations

import re
import zipfile
from posixpath import join, normpath
from typing import IO
from xml.parsers import expat

_CHUNK = 1 << 20
_BOOK, _TARGETS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
# a formula that comes to an empty text says so by its cell's type
_UNRECKONED = re.compile(
    rb"<c\b((?:(?!\bt=\"str\")[^>])*)>\s*<f\b(?:[^>]*/>|[^>]*>[^<]*</f>)\s*(?:<v\s*/>|<v>\s*</v>)?\s*</c>"
)
_PLACE = re.compile(rb"\br=\"([A-Z]+[0-9]+)\"")
_LONGEST = 1 << 14  # of a formula Excel takes 8192 signs


def unreckoned(file: IO[bytes], sheet: str) -> str | None:
    """Return the cell of the first formula of a sheet without a value; None where each has one, or it is no .xlsx.

    Cost: one unpacking of the sheet, in bounded memory
    """
    if not zipfile.is_zipfile(file):
        return None
    file.seek(0)
    with zipfile.ZipFile(file) as packed:
        path = _path_of(packed, sheet)
        if path is None:
            return None
        with packed.open(path) as content:
            before = b""
            while chunk := content.read(_CHUNK):
                text = before + chunk
                if b"<f" in text and (found := _UNRECKONED.search(text)):
                    place = _PLACE.search(found[1])
                    return place[1].decode() if place else "of a row"
                before = text[-_LONGEST:]
    return None


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
        return []  # the library says what is wrong with it
    return found
