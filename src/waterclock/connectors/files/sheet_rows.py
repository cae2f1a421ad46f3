"""Reads a sheet of a workbook with calamine: columns from its header, rows as texts with their row numbers.

It runs in the process that `workbook_process` starts for each workbook. To start quickly, it imports only the standard
library and modules that import nothing else; `main` imports calamine.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, Self

from waterclock.connectors.files.sheet_size_limits import check_used_ranges
from waterclock.connectors.files.workbook_zips import require_plain_zip
from waterclock.connectors.files.xlsx_checks import check_cells, column_letters
from waterclock.errors import WaterclockError
from waterclock.similar_names import did_you_mean

OUT_OF_MEMORY = 77
"""Exit code of the process if it reaches its memory limit."""
_BATCH_ROWS, _BATCH_CHARACTERS = 10_000, 1 << 24
_MOST_STDERR = 1 << 20
_MOST_BYTES = 512 << 20
_MOST_RATIO = 250
_SMALL = 16 << 20
_MOST_FILLED = 1 << 20  # merged cells beyond the used range
_MOST_NOISE = 4  # units in the last place of a double, which sums and products of cells may add
_NO_TIME, _MINUTE, _HOUR = timedelta(0), timedelta(minutes=1), timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Cells:
    """A rectangle of cells of a sheet. Rows and columns count from 0, and both ends are included.

    None as `bottom` or `right` means up to the end of the sheet.
    """

    top: int
    left: int
    bottom: int | None = None
    right: int | None = None


@dataclass(frozen=True, slots=True)
class SheetRequest:
    """The sheet and the cells to read, with the options for it.

    `declared`: names for the columns of a sheet without a header. `near`: the indexes of columns whose numbers keep all
    digits, instead of the 15 that spreadsheets show. `null`: the text that means NULL.
    """

    sheet: str = ""
    cells: Cells | None = None
    has_header: bool = True
    fills_merged: bool = False
    null: str = ""
    declared: tuple[str, ...] = ()
    near: tuple[int, ...] = ()
    is_header_only: bool = False

    def to_json(self) -> str:
        """Return the request as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the result of `to_json`."""
        parts = json.loads(text)
        parts |= {name: tuple(parts[name]) for name in ("declared", "near")}
        return cls(**parts | {"cells": parts["cells"] and Cells(**parts["cells"])})


def main() -> None:
    """Read the workbook of an open file, and write the result to stdout as JSON lists, one per line.

    The arguments are the file's descriptor, the limit of memory in bytes and the limit of CPU time in seconds. The
    request is read from stdin. The lines are ["names", …], then ["rows", columns] for each batch, whose last column has
    the row numbers, and ["end"]. After an error the last line is ["error", parts of the error] or ["unreadable",
    reason] instead.
    """
    file_number, memory, seconds = map(int, sys.argv[1:4])
    _limit_process(memory, seconds)
    try:
        import python_calamine as library

        request = SheetRequest.from_json(sys.stdin.read())
        with open(file_number, "rb") as file:  # noqa: PTH123 - a descriptor has no path
            for message in _read_messages(file, request, library):
                _send_message(*message)
        _send_message("end")
    except WaterclockError as error:
        _send_message("error", error.to_dict())
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BrokenPipeError:
        os._exit(1)  # no process reads the result
    except BaseException as error:  # noqa: BLE001 - libraries fail in many ways; a panic of calamine is no Exception
        if _peak_bytes() > memory // 2:
            os._exit(OUT_OF_MEMORY)
        is_plain = isinstance(error, ValueError | OSError | EOFError | LookupError) and str(error)
        _send_message("unreadable", str(error) if is_plain else f"{type(error).__name__}: {error}")
    os._exit(0)  # without freeing the workbook's memory, which takes time


def _peak_bytes() -> int:
    """Return the most memory that this process has used, in bytes.

    On Linux, `ru_maxrss` would also count the memory of the process that started this one.
    """
    with suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        if (peak := re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)) is not None:
            return int(peak[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _limit_process(memory: int, seconds: int) -> None:
    """Limit the memory and CPU time of this process.

    macOS does not enforce a memory limit. On Linux the process is also marked as the first to be killed without memory.
    """
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, _MOST_STDERR)]
    for kind, most in (*limits, (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
        hard = resource.getrlimit(kind)[1]
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _send_message(*message: object) -> None:
    line = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"
    at = 0
    while at < len(line):
        at += os.write(1, line[at : at + (1 << 20)])


def _read_messages(file: IO[bytes], request: SheetRequest, library: Any) -> Iterator[tuple[object, ...]]:
    """Yield the messages that `main` writes for a valid workbook. Raises the errors of `_open_sheet`."""
    sheet = _open_sheet(file, request, library)
    yield "names", sheet.names
    if request.is_header_only:
        return
    rows: list[list[Any]] = []
    size = 0
    for number, row in _read_rows(sheet, request):
        rows.append([*row, number])
        size += sum(map(len, filter(None, row)))
        if len(rows) == _BATCH_ROWS or size > _BATCH_CHARACTERS:
            yield "rows", list(zip(*rows, strict=True))
            rows, size = [], 0
    if rows:
        yield "rows", list(zip(*rows, strict=True))


@dataclass(frozen=True, slots=True)
class Sheet:
    """The column names of a sheet and the range of its data.

    `rows(n)` iterates over the sheet's rows from row `n` on, counted from 0.
    """

    names: tuple[str, ...]
    cells: Cells
    rows: Any


def _read_rows(sheet: Sheet, request: SheetRequest) -> Iterator[tuple[int, list[str | None]]]:
    """Yield the rows of a sheet that are not empty, with their row numbers, from 1."""
    width = len(sheet.names)
    near: AbstractSet[int] = frozenset(request.near)
    for at, row in enumerate(sheet.rows(sheet.cells.top), sheet.cells.top):
        if sheet.cells.bottom is not None and at > sheet.cells.bottom:
            return
        values = enumerate(row[sheet.cells.left :])
        cells = [_cell_text(value, is_near=at_column in near) for at_column, value in values]
        if sheet.cells.right is None and (beyond := next((c for c in range(width, len(cells)) if cells[c]), None)):
            raise WaterclockError(
                "E884",
                f"row {at + 1} has a value in column {column_letters(sheet.cells.left + beyond)}, which has no header",
                why="a value without a column name belongs to no column",
                fix="name it there, or give the range with the data: OPTIONS (range 'A1:F')",
            )
        texts = [text if text not in (None, "", request.null) else None for text in cells[:width]]
        texts += [None] * (width - len(texts))
        if any(text is not None for text in texts):
            yield at + 1, texts


def _open_sheet(file: IO[bytes], request: SheetRequest, library: Any) -> Sheet:
    """Open the sheet and read its header. Raises E882, E884, E885; ValueError if the file is no workbook."""
    require_plain_zip(file)
    require_bounded_size(file)
    check_used_ranges(file)
    try:
        book = library.CalamineWorkbook.from_filelike(file)
        name = _choose_sheet(_visible_first(book, library), request.sheet)
        errors = _find_error_cells(file, name)  # before the library reads the sheet: it allocates the whole used range
        found = book.get_sheet_by_name(name)
    except library.CalamineError as error:
        raise ValueError(f"the workbook cannot be read: {error}") from error
    if found.start is None:
        raise _no_header_error(name, "the sheet is empty")
    offset = found.start[1]
    fills = _find_fills(found, request, errors)

    def rows(first: int) -> Iterator[list[Any]]:
        for at, row in enumerate(found.iter_rows()):
            if at >= first:
                whole = [""] * offset + list(row)
                for column, error in errors.get(at, {}).items():
                    whole += [""] * (column + 1 - len(whole))
                    whole[column] = error
                for left, right, value in fills.get(at, ()):
                    whole[left : right + 1] = [value] * (right + 1 - left)
                yield whole

    cells = request.cells or Cells(int(found.start[0]), offset)
    _require_no_merged_cells(found, request, cells, name)
    header = next(rows(cells.top), [])
    right = len(header) - 1 if cells.right is None else cells.right
    header = header[cells.left : right + 1]
    if request.has_header:
        names = [_cell_text(value) or "" for value in header]
        while names and not names[-1] and cells.right is None:
            names.pop()
        if not any(names):
            raise _no_header_error(name, f"row {cells.top + 1} has no names")
        inner = Cells(cells.top + 1, cells.left, cells.bottom, cells.right)
        return Sheet(tuple(text or _make_column_name(at) for at, text in enumerate(names)), inner, rows)
    width = max(found.end[1], right) - cells.left + 1 if cells.right is None else cells.right - cells.left + 1
    declared = request.declared[:width]
    column_names = [*declared, *(_make_column_name(at) for at in range(len(declared), width))]
    return Sheet(tuple(column_names), cells, rows)


def _visible_first(book: Any, library: Any) -> list[str]:
    """Return the sheet names, visible ones first. A hidden sheet is read only by its name, or if all are hidden."""
    hidden = {one.name for one in book.sheets_metadata if one.visible != library.SheetVisibleEnum.Visible}
    return sorted(book.sheet_names, key=lambda name: name in hidden)


def _find_error_cells(file: IO[bytes], name: str) -> dict[int, dict[int, str]]:
    """Return the texts of error cells, such as #N/A, by row and column, because calamine reads them as empty cells.

    Raises E882 for a used range that is too large; E884 for a formula without a stored result.
    """
    file.seek(0)
    found = check_cells(file, name)
    if found.unreckoned is not None:
        raise WaterclockError(
            "E884",
            f"the cell {found.unreckoned} of {name} has a formula without a value",
            why="the program that wrote the workbook did not calculate it, and Waterclock calculates no formulas",
            fix="open the workbook in Excel and save it, or write it with values",
        )
    return found.errors


def _make_column_name(at: int) -> str:
    return f"column_{at + 1}"


def _find_fills(
    found: Any, request: SheetRequest, errors: Mapping[int, Mapping[int, str]]
) -> dict[int, list[tuple[int, int, Any]]]:
    """Map each row to the column ranges that merged cells cover, each with the value to fill in."""
    if not request.fills_merged:
        return {}
    ranges = _bounded_ranges(found)
    tops = {top for (top, _), _ in ranges}
    values = {at: row for at, row in enumerate(found.iter_rows()) if at in tops}
    fills: dict[int, list[tuple[int, int, Any]]] = {}
    for (top, left), (bottom, right) in ranges:
        row, place = values.get(top, []), left - found.start[1]
        value = errors.get(top, {}).get(left) or (row[place] if 0 <= place < len(row) else "")
        for at in range(top, bottom + 1):
            fills.setdefault(at, []).append((left, right, value))
    return fills


def _bounded_ranges(found: Any) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the ranges of merged cells, cut at the last used row.

    Raises ValueError if they contain more cells than the sheet, so that some must overlap.
    """
    last, end = found.end
    ranges = [
        (start, (min(bottom, last), right))
        for start, (bottom, right) in found.merged_cell_ranges or []
        if start[0] <= last
    ]
    size = sum((bottom - top + 1) * (right - left + 1) for (top, left), (bottom, right) in ranges)
    if size > max((last + 1) * (end + 1), _MOST_FILLED):
        raise ValueError(f"its merged cells cover {size} cells, more than its used range")
    return ranges


def _require_no_merged_cells(found: Any, request: SheetRequest, cells: Cells, name: str) -> None:
    if request.fills_merged:
        return
    for (top, left), (bottom, right) in found.merged_cell_ranges or []:
        is_below = bottom >= cells.top and (cells.bottom is None or top <= cells.bottom)
        is_beside = right >= cells.left and (cells.right is None or left <= cells.right)
        if is_below and is_beside:
            place = f"{column_letters(left)}{top + 1}:{column_letters(right)}{bottom + 1}"
            raise WaterclockError(
                "E885",
                f"the cells {place} of {name} are merged",
                why="several cells share one value, and it is unclear to which of them it belongs",
                fix="give the range with the data: OPTIONS (range 'B3:F'); or give all of them the value: "
                "OPTIONS (merged 'fill')",
            )


def _choose_sheet(names: Sequence[str], wanted: str) -> str:
    if not wanted and names:
        return names[0]
    found = [name for name in names if name.lower() == wanted.lower()] or [
        name for name in names if fnmatchcase(name.lower(), wanted.lower())
    ]
    if len(found) == 1:
        return found[0]
    raise WaterclockError(
        "E884",
        f"no sheet {wanted}" if not found else f"several sheets {wanted}: {', '.join(found)}",
        why=f"there are {', '.join(names)}",
        fix=did_you_mean(wanted, names, otherwise="name one of them: OPTIONS (sheet '...')"),
    )


def _no_header_error(name: str, why: str) -> WaterclockError:
    return WaterclockError(
        "E884",
        f"the sheet {name} has no header",
        why=why,
        fix="set where it begins: OPTIONS (range 'B3'), another sheet: OPTIONS (sheet '...'), or (header FALSE)",
    )


def require_bounded_size(file: IO[bytes]) -> None:
    """Raise E882 for a workbook that is a zip bomb or does not fit into memory when unpacked."""
    if not zipfile.is_zipfile(file):
        file.seek(0)
        return
    file.seek(0)
    with zipfile.ZipFile(file) as packed:
        members = packed.infolist()
    dense = [one for one in members if one.file_size > max(_SMALL, one.compress_size * _MOST_RATIO)]
    total = sum(one.file_size for one in members)
    file.seek(0)
    if dense or total > _MOST_BYTES:
        raise WaterclockError(
            "E882",
            "the workbook is too large",
            why=f"it has {total} bytes when unpacked, and the limit is {_MOST_BYTES}"
            + (f"; {dense[0].filename} is compressed to {dense[0].compress_size}" if dense else ""),
            fix="split it, or send it as CSV or Parquet",
        )


def _cell_text(value: Any, *, is_near: bool = False) -> str | None:  # noqa: PLR0911 - one return per type
    """Convert a cell's value to text: whole numbers without a point, times as ISO 8601; None for an empty cell.

    `is_near`: a number keeps all digits.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < 1 << 63
        return str(int(value)) if whole else repr(value if is_near else _round_as_shown(value))
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, timedelta):
        hours, rest = divmod(abs(value), _HOUR)
        minutes, rest = divmod(rest, _MINUTE)
        fraction = f".{rest.microseconds:06}".rstrip("0") if rest.microseconds else ""
        return f"{'-' if value < _NO_TIME else ''}{hours:02}:{minutes:02}:{rest.seconds:02}{fraction}"
    return value.isoformat() if isinstance(value, date | time_of_day) else str(value)


def _round_as_shown(value: float) -> float:
    shown = float(f"{value:.15g}")
    return shown if abs(shown - value) <= _MOST_NOISE * math.ulp(value) else value
