"""Reads pasted text, CSV files and workbooks into rows of cells, and writes the rows of a form as such files.

A value that a spreadsheet would take for a formula is written with an apostrophe before it, which reading removes.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import islice
from pathlib import PurePath
from typing import IO, Any

from waterclock.connectors.forms.changes import MOST_EDITS, StoredRow
from waterclock.errors import WaterclockError
from waterclock.flow.forms import Entity, FormField
from waterclock.flow.row_conditions import ValueKind, kind_of_type

MOST_BYTES = 50 << 20
"""The maximum size of a file to import, in bytes."""

MOST_CHARACTERS_OF_A_TEXT = 20_000_000
"""The maximum length of an imported text, in characters."""

MOST_COLUMNS = 2000
"""The maximum number of cells in an imported row."""

WORKBOOKS = frozenset({".xlsx", ".xlsm", ".xls", ".xlsb", ".ods"})
"""The endings of files that are read as workbooks."""

_FORMULA = re.compile(r"'*[=+\-@\t]")
_ESCAPED = re.compile(r"'+[=+\-@\t]")
_NUMERIC = re.compile(r"[+-]?[0-9.]+(?:e[+-]?[0-9]+)?", re.IGNORECASE)
_QUOTED = re.compile(r'(?:^|(?<=[\t;,\n\r]))"(?:[^"]|"")*(?:"|$)')
_TO_QUOTE = re.compile(r'[\t;,"\r\n]')
_HEAD = 100_000  # characters in which the separator is searched for
_EXACT_DIGITS = 15  # of a number in a workbook
_FIRST_DATE = date(1900, 3, 1)  # Excel has a 29 February 1900, so programs disagree about the days before
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file to import, as `read_text` reads it.

    `encoding` is named only if it was guessed. `is_workbook`: numbers are cells, and have a decimal point.
    """

    text: str
    encoding: str = ""
    is_workbook: bool = False


def is_workbook(name: str) -> bool:
    """Return whether a file is read as a workbook, by the ending of its name."""
    return PurePath(name).suffix.lower() in WORKBOOKS


def read_file(name: str, file: IO[bytes], *, sheet: str = "") -> FileText:
    """Return the text of a CSV file or of a sheet of a workbook. Raises E891, and the errors of `read_workbook`."""
    if is_workbook(name):
        return FileText(write_block(read_workbook(file, sheet)), is_workbook=True)
    content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise unreadable_error(f"the file has more than {MOST_BYTES >> 20} MB")
    encoding, is_guessed = _find_encoding(content)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        names = f"neither UTF-8 nor {encoding}" if is_guessed else f"not {encoding}"
        why = f"the file is {names}: byte {error.start} is {error.object[error.start]:#04x}"
        raise unreadable_error(why, fix="save it as CSV UTF-8, or as .xlsx") from error
    if len(text) > MOST_CHARACTERS_OF_A_TEXT:
        raise _too_long_error(len(text))
    return FileText(text, encoding if is_guessed else "")


def _find_encoding(content: bytes) -> tuple[str, bool]:
    """Return the encoding of a text file, and whether it is guessed: without a byte order mark and no UTF-8."""
    marked = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    if marked is not None:
        return marked, False
    if b"\0" in content[:2]:  # the first character of UTF-16 is a letter, a digit or a quote
        return ("utf-16-be" if content.startswith(b"\0") else "utf-16-le"), True
    try:
        content.decode()
    except UnicodeDecodeError:
        return "windows-1252", True
    return "utf-8", False


def read_text(text: str) -> list[list[str]]:
    """Parse a pasted block or a CSV file into rows of cells, without empty rows. Raises E891.

    Cells are separated by tabs, semicolons or commas, whichever the first line has most of outside of quotes.
    """
    if len(text) > MOST_CHARACTERS_OF_A_TEXT:
        raise _too_long_error(len(text))
    plain = text.removeprefix("\ufeff")
    first = re.split(r"[\r\n]", _QUOTED.sub("", plain[:_HEAD].lstrip("\r\n")), maxsplit=1)[0]
    separator = max("\t;,", key=first.count)
    try:
        rows = csv.reader(io.StringIO(plain, newline=""), delimiter=separator, strict=True)
        kept = (row for row in rows if any(cell.strip() for cell in row))
        return list(islice(kept, MOST_EDITS + 2))  # one more than a review accepts
    except csv.Error as error:
        raise unreadable_error(str(error)) from error


def write_block(rows: Iterable[Sequence[str]]) -> str:
    """Return rows of cells as a text that `read_text` reads back, with the cells that it keeps."""
    lines = (
        "\t".join('"' + cell.replace('"', '""') + '"' if _TO_QUOTE.search(cell) else cell for cell in row)
        for row in rows
    )
    return "".join(f"{line}\n" for line in lines)


def read_workbook(file: IO[bytes], sheet: str = "") -> list[list[str]]:
    """Read a sheet of a workbook, the first visible one by default, into rows of cells without empty ones.

    Formulas have their stored values. Raises E891 for too many cells and for a file that is no workbook, and E882,
    E884, E885 or E888.
    """
    from waterclock.connectors.files.sheet_rows import SheetRequest
    from waterclock.connectors.files.workbook_process import read_columns, read_rows

    request = SheetRequest(sheet=sheet, has_header=False)
    rows: list[list[str]] = []
    size = 0
    try:
        width = len(read_columns(file, request))
        if width > MOST_COLUMNS:
            raise unreadable_error(f"the sheet has {width} columns, and at most {MOST_COLUMNS} are read")
        file.seek(0)
        for columns in read_rows(file, request):
            for cells in zip(*columns[:-1], strict=True):
                row = [cell or "" for cell in cells]
                while row and not row[-1]:
                    row.pop()
                size += sum(map(len, row))
                rows.append(row)
            if len(rows) > MOST_EDITS + 1:
                raise unreadable_error(f"at most {MOST_EDITS} rows are imported at once")
            if size > MOST_CHARACTERS_OF_A_TEXT:
                raise _too_long_error(size)
    except ValueError as error:
        raise unreadable_error(str(error), fix="save it as .xlsx or .csv, and read that file") from error
    return rows


def write_csv(entity: Entity, rows: Iterable[StoredRow]) -> Iterator[str]:
    """Yield the lines of a CSV file with all rows, which `read_text` reads back."""
    yield _csv_line([field.name for field in entity.fields])
    for row in rows:
        yield _csv_line([escape_formula(row.content.get(field.name) or "", field) for field in entity.fields])


def write_workbook(entity: Entity, rows: Iterable[StoredRow], file: IO[bytes]) -> None:
    """Write a workbook with all rows, which `read_workbook` reads back. A text is never a formula.

    Numbers and dates are cells of these types if a spreadsheet keeps them exactly, and texts otherwise. Raises E891 for
    more rows than are imported at once, E888 without openpyxl, and E889 for a character that no workbook has.
    """
    from waterclock.connectors.files.excel_writing import write_sheet

    def cells() -> Iterator[list[Any]]:
        for at, row in enumerate(rows):
            if at >= MOST_EDITS:
                raise unreadable_error(
                    f"a workbook has at most {MOST_EDITS} rows of a form", fix="export the rows as CSV"
                )
            yield [_cell_of(field, row.content.get(field.name)) for field in entity.fields]

    write_sheet(file, [field.name for field in entity.fields], cells())


def _cell_of(field: FormField, text: str | None) -> Any:
    """Return a stored value as a cell. Values that a column of another type stored before are texts."""
    if not text:
        return None
    kind = kind_of_type(field.type)
    if kind is ValueKind.DATE:
        try:
            day = date.fromisoformat(text)
        except ValueError:
            return escape_formula(text)
        return day if day >= _FIRST_DATE else text
    if kind is ValueKind.BOOLEAN and text in {"true", "false"}:
        return text == "true"
    if (kind is ValueKind.NUMBER or field.type in {"FLOAT", "DOUBLE"}) and _NUMERIC.fullmatch(text):
        is_exact = "e" not in text.lower() and sum(map(str.isdigit, text)) <= _EXACT_DIGITS
        return Decimal(text) if is_exact else text
    return escape_formula(text)


def escape_formula(value: str, field: FormField | None = None) -> str:
    """Return a value with an apostrophe before it if a spreadsheet would take it for a formula.

    Numbers stay as they are.
    """
    is_number = field is not None and field.type != "STRING" and _NUMERIC.fullmatch(value)
    return f"'{value}" if _FORMULA.match(value) and not is_number else value


def unescape_formula(value: str) -> str:
    """Return a cell without the apostrophe of `escape_formula`."""
    return value[1:] if _ESCAPED.match(value) else value


def unreadable_error(why: str, fix: str = "") -> WaterclockError:
    """Build the error of rows that cannot be imported or exported."""
    return WaterclockError(
        "E891",
        "these rows cannot be read",
        why=why,
        fix=fix or "use a header with the names of the columns, as `waterclock edit export` writes it",
    )


def _too_long_error(size: int) -> WaterclockError:
    why = f"it has {size} characters, and at most {MOST_CHARACTERS_OF_A_TEXT} are read"
    return unreadable_error(why, fix="import the rows in parts")


def _csv_line(cells: Sequence[str]) -> str:
    line = io.StringIO(newline="")
    csv.writer(line).writerow(cells)
    return line.getvalue()
