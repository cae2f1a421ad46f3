"""Checks XML documents before Spark reads them, and refuses those that declare entities; finds their columns."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NoReturn
from xml.parsers import expat

from waterclock.connectors.files.encodings import MOST_OF_A_LINE
from waterclock.errors import WaterclockError

_CHUNK = 1 << 16
_MOST_PROLOG = 1 << 20


class _RootReached(Exception):
    """Raised when the parser has reached the root element."""


def require_no_entities(file: IO[bytes], path: str, encoding: str) -> None:
    """Raise E880 for an XML document that declares entities. It is read up to its first element, in bounded memory.

    Entities can make a small document grow without bounds, and can read files of this machine. The check itself expands
    no entity and opens no other file.
    Raises E880 for a document that declares entities or refers to an external definition, or whose prolog is too long
    or in an encoding that cannot be checked.
    """
    parser = expat.ParserCreate(_parser_encoding(encoding))

    def entity(*_: object) -> NoReturn:
        raise _unsafe_xml_error(path, "it declares entities")

    def external(_name: str, system: str | None, public: str | None, _has_subset: int) -> None:
        if system or public:
            raise _unsafe_xml_error(path, f"it refers to an external definition, {system or public}")

    def root(*_: object) -> NoReturn:
        raise _RootReached

    parser.EntityDeclHandler = entity
    parser.StartDoctypeDeclHandler = external
    parser.StartElementHandler = root
    read = 0
    try:
        for chunk in _chunks(file, encoding):
            parser.Parse(chunk, False)  # noqa: FBT003 - expat's own
            read += len(chunk)
            if read > _MOST_PROLOG:
                raise _unsafe_xml_error(path, f"its first element does not begin within {_MOST_PROLOG >> 20} MB")
    except _RootReached:
        return
    except expat.ExpatError:
        return  # Spark refuses it as well; then `first_fault` finds the line
    except (LookupError, ValueError) as error:
        raise _unsafe_xml_error(path, f"its encoding cannot be read ({error})") from error


def _parser_encoding(encoding: str) -> str | None:
    """Return the encoding that a parser of the bytes from `_chunks` needs; None if the document declares it."""
    return None if encoding.upper() in ("UTF-8", "UTF8") else "UTF-8"


def _chunks(file: IO[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the bytes of a file, converted to UTF-8 if another encoding is declared, as expat knows few encodings."""
    decoder = None if _parser_encoding(encoding) is None else codecs.getincrementaldecoder(encoding)("replace")
    while chunk := file.read(_CHUNK):
        yield chunk if decoder is None else decoder.decode(chunk).encode("UTF-8", "replace")


def columns_in(file: IO[bytes], tag: str, encoding: str) -> dict[str, str]:
    """Map the columns of a document's rows, the elements `tag`, to their types: STRING, or ARRAY<STRING> if repeated.

    Spark would infer the same columns. Text after a syntax error is ignored. Cost: one pass, in bounded memory.
    """
    rows = _RowColumns(tag)
    parser = expat.ParserCreate(_parser_encoding(encoding))
    parser.StartElementHandler = rows.begin
    parser.EndElementHandler = rows.end
    parser.CharacterDataHandler = rows.text
    try:
        for chunk in _chunks(file, encoding):
            parser.Parse(chunk, False)  # noqa: FBT003
    except (expat.ExpatError, LookupError, ValueError):
        pass
    return rows.columns


class _RowColumns:
    """Collects the columns of rows, which are their attributes and child elements, from the events of an XML parser."""

    def __init__(self, tag: str) -> None:
        self.columns: dict[str, str] = {}
        self._tag = tag
        self._depth = 0
        self._seen_in_row: set[str] = set()
        self._has_text = False

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        if self._depth == 0 and local == self._tag:
            self._depth, self._seen_in_row, self._has_text = 1, set(), False
            for each in attributes:
                if not each.startswith("xmlns"):
                    self.columns.setdefault(f"_{each.rpartition(':')[2]}", "STRING")
        elif self._depth:
            if self._depth == 1:
                kind = "ARRAY<STRING>" if local in self._seen_in_row else self.columns.get(local, "STRING")
                self.columns[local] = kind
                self._seen_in_row.add(local)
            self._depth += 1

    def end(self, _name: str) -> None:
        if self._depth:
            self._depth -= 1
            if self._depth == 0 and self._has_text:
                self.columns.setdefault("_VALUE", "STRING")

    def text(self, text: str) -> None:
        if self._depth == 1 and text.strip():
            self._has_text = True


def first_fault(file: IO[bytes], encoding: str) -> tuple[int, str] | None:
    """Return line and reason of the first XML syntax error; None if there is none.

    A tag or comment of `MOST_OF_A_LINE` bytes or more is reported as well. Cost: one pass, in bounded memory.
    """
    parser = expat.ParserCreate(_parser_encoding(encoding))
    read = 0
    try:
        for chunk in _chunks(file, encoding):
            parser.Parse(chunk, False)  # noqa: FBT003
            read += len(chunk)
            if read - parser.CurrentByteIndex > MOST_OF_A_LINE:  # the parser keeps the beginning of a tag
                return parser.CurrentLineNumber, f"it has a tag or comment of more than {MOST_OF_A_LINE} bytes"
        parser.Parse(b"", True)  # noqa: FBT003
    except expat.ExpatError as error:
        return error.lineno, f"it is not XML: {expat.errors.messages[error.code]}, at column {error.offset + 1}"
    except (LookupError, ValueError) as error:
        return parser.CurrentLineNumber, f"its encoding cannot be read ({error})"
    return None


def _unsafe_xml_error(path: str, why: str) -> WaterclockError:
    return WaterclockError(
        "E880",
        f"{Path(path).name} cannot be read safely",
        where=path,
        why=f"{why}; such documents can expand without limit, or read files of this machine",
        fix="ask the sender for plain XML without a DOCTYPE; no row of it was collected",
    )
