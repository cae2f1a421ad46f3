"""Writes one Excel file with openpyxl, row by row, so that only one row is in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

from waterclock.connectors.drivers import missing_library_error
from waterclock.connectors.slice_rows import base64_text, to_json_text
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_ROWS = 1_048_576
_MOST_CHARACTERS = 32_767
_EXACT_DIGITS = 15  # digits of a number that Excel preserves
_FIRST_YEAR = 1900
_LARGEST = 1e307
_NOT_IN_XML = re.compile("[\ufffe\uffff]")
# XML turns a carriage return into a line feed, and Excel turns the text `_x0041_` into `A`
_TO_ESCAPE = re.compile(r"\r|_(?=x[0-9A-Fa-f]{4}_)")


def write_workbook(
    file: IO[bytes], names: Sequence[str], batches: Iterator[pa.RecordBatch], *, has_header: bool
) -> int:
    """Write a workbook with one sheet from batches, and return the number of rows. Raises the errors of `write_sheet`.

    Instants are in UTC, as Excel has no zones.
    """
    rows = (
        row
        for batch in batches
        for row in zip(*(column.to_pylist(maps_as_pydicts="lossy") for column in batch.columns), strict=True)
    )
    return write_sheet(file, names if has_header else (), rows)


def write_sheet(file: IO[bytes], names: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Write a workbook with one sheet, with a header of `names` if there are any, and return the number of rows.

    A number with more digits than Excel preserves is written as text, as is a date before 1900. Bytes become base64,
    and nested values JSON. A text never becomes a formula.
    Raises E888 if openpyxl is missing; E889 for more rows or longer texts than Excel allows, and for characters that
    XML does not allow.
    """
    try:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.utils.exceptions import IllegalCharacterError
    except ImportError as error:
        raise missing_library_error("Excel", "openpyxl", "excel", is_of_workers=False) from error
    book = Workbook(write_only=True)
    sheet = book.create_sheet("data")

    def cell(value: Any) -> Any:
        converted = _to_cell_value(value)
        if not isinstance(converted, str):
            return converted
        if len(converted) > _MOST_CHARACTERS:
            raise _sheet_limit_error(f"a text has {len(converted)} characters, and a cell holds {_MOST_CHARACTERS}")
        if _NOT_IN_XML.search(converted):
            raise _sheet_limit_error(f"{converted[:40]!r} has a character that XML does not allow")
        try:
            made = WriteOnlyCell(sheet, value=_TO_ESCAPE.sub(_escape, converted))
        except IllegalCharacterError as error:
            raise _sheet_limit_error(f"{converted[:40]!r} has a control character") from error
        made.data_type = "s"
        return made

    count = 0
    try:
        if names:
            sheet.append([cell(name) for name in names])
        for row in rows:
            count += 1
            if count + bool(names) > _MOST_ROWS:
                raise _sheet_limit_error(f"there are more than {_MOST_ROWS} rows")
            sheet.append([cell(value) for value in row])
    finally:
        book.save(file)
    return count


def _escape(found: re.Match[str]) -> str:
    """Return a character in the form `_xHHHH_`, which Excel converts back."""
    return f"_x{ord(found[0]):04X}_"


def _to_cell_value(value: Any) -> Any:  # noqa: PLR0911 - one return per type
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if len(str(abs(value))) <= _EXACT_DIGITS else str(value)
    if isinstance(value, float):
        return value if abs(value) < _LARGEST else str(value)  # NaN becomes text as well
    if isinstance(value, Decimal):
        return value if len(value.as_tuple().digits) <= _EXACT_DIGITS else str(value)
    if isinstance(value, datetime):
        local = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return local if local.year >= _FIRST_YEAR else local.isoformat(sep=" ")
    if isinstance(value, date):
        return value if value.year >= _FIRST_YEAR else value.isoformat()
    return base64_text(value) if isinstance(value, bytes) else to_json_text(value)


def _sheet_limit_error(why: str) -> WaterclockError:
    return WaterclockError(
        "E889",
        "the rows do not fit an Excel sheet",
        why=why,
        fix="write fewer rows or shorter texts, or another format, such as csv",
    )
