"""Draws the grid of `status` on a terminal: a row for each table, a column for each period, newest on the right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.text import Text

from waterclock.cli.views.theme import LOOKS, state_character
from waterclock.operations.display_states import State
from waterclock.operations.formatting import local_label
from waterclock.operations.grid import Grid, GridCell, GridRow
from waterclock.timelabel.label import label_of
from waterclock.timelabel.period import TimeUnit
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    from rich.console import Console

_NAME_WIDTH = 30
_ELLIPSIS = "…"


def count_fitting_columns(width: int, names: list[str], cell: int) -> int:
    """Return how many columns of `cell` characters fit on a line next to the names; at least one."""
    return max(1, (width - _name_width(names) - 1) // cell)


def cell_width(grid: Grid) -> int:
    """Return the width of a column: that of the longest cell, at least two digits for the header, and a blank."""
    longest = max((len(_cell_text(cell, "■")) for row in grid.rows for cell in row.cells if cell), default=1)
    return max(2, longest) + 1


def fit_grid(grid: Grid, width: int) -> Grid:
    """Return the grid with only the newest columns that fit on a line."""
    return grid.latest(count_fitting_columns(width, [row.table for row in grid.rows], cell_width(grid)))


def print_grid(to: Console, shown: Grid) -> None:
    """Print a grid that fits, with a legend of the states that occur."""
    width = cell_width(shown)
    left = _name_width([row.table for row in shown.rows])
    for line in _header(shown, left, width, to.width):
        to.print(line, soft_wrap=True)
    to.print(_GridRows(shown.rows, left, width), soft_wrap=True, end="")
    if shown.states:
        to.print()
        to.print(_legend(to, shown))


def grid_parts(grid: Grid) -> dict[str, Any]:
    """Return the fields of the JSON answer of `status` that contain the grid."""
    return {
        "by": str(grid.cadence.period),
        "zone": grid.cadence.zone,
        "columns": [
            {"start": start, "label": label_of(start), "local": local_label(start, grid.cadence)}
            for start in grid.columns
        ],
        "rows": grid.rows,
    }


def _name_width(names: list[str]) -> int:
    return min(_NAME_WIDTH, max((len(name) for name in names), default=0))


def _header(grid: Grid, left: int, width: int, line: int) -> list[Text]:
    """Return two header lines: the decade, year, month or day above its columns, and the number of each column below.

    A name that is wider than its columns is shortened or left out. The last name may use the remaining width of the
    line.
    """
    above, below = _header_parts(grid)
    begins = [at for at, names in enumerate(above) if at == 0 or names[0] != above[at - 1][0]]
    top = ""
    for at, until in pairwise([*begins, len(below)]):
        column = left + at * width + max(0, width - len(below[at]))
        room = line - column if until == len(below) else (until - at) * width - 1
        name = next((name for name in above[at] if len(name) <= room), "")
        top = top.ljust(column) + name
    numbers = "".join(f"{text:>{width}}" for text in below)
    return [Text(top.rstrip(), style="quiet"), Text(" " * left + numbers, style="quiet")]


def _header_parts(grid: Grid) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the parts of the header, with an item per column.

    The first list has the possible names for the upper line, longest first, the second the numbers for the lower line.
    """
    unit = grid.cadence.period.unit
    forms: tuple[str, ...]
    local = [start.astimezone(nominal_zone(grid.cadence.zone)) for start in grid.columns]
    if unit is TimeUnit.MINUTE:
        is_hours = grid.cadence.period.minutes % 60 == 0
        lower = [f"{at:%H}" if is_hours else f"{at:%M}" for at in local]
        forms = ("%Y-%m-%d", "%m-%d") if is_hours else ("%Y-%m-%d %Hh", "%m-%d %Hh", "%Hh")
    elif unit in {TimeUnit.DAY, TimeUnit.WEEK}:
        lower = [f"{at:%d}" for at in local]
        forms = ("%B %Y", "%b %Y", "%B", "%b")
    elif unit is TimeUnit.YEAR:
        return [(f"{at.year // 10 * 10}s",) for at in local], [f"{at:%y}" for at in local]
    else:
        lower = [f"{at:%m}" for at in local]
        forms = ("%Y", "%y")
    return [tuple(at.strftime(form) for form in forms) for at in local], lower


@dataclass(frozen=True, slots=True)
class _GridRows:
    """The rows of a grid, with a blank line between schemas. Printing them in one call saves 0.1 ms per line."""

    rows: tuple[GridRow, ...]
    left: int
    width: int

    def __rich_console__(self, to: Console, _: Any) -> Iterator[Segment]:
        """Draw the rows. Rows that share their cells, such as those with all labels done, are drawn once."""
        drawn: dict[int, list[Segment]] = {}
        for at, (_schema, rows) in enumerate(groupby(self.rows, key=lambda row: row.table.partition(".")[0])):
            if at:
                yield Segment.line()
            for row in rows:
                key = id(row.cells)
                if key not in drawn:
                    drawn[key] = list(_draw_cells(to, row, self.width))
                name = row.table if len(row.table) <= self.left else row.table[: self.left - 1] + _ELLIPSIS
                yield Segment(f"{name:<{self.left}}" if drawn[key] else name)
                yield from drawn[key]
                yield Segment.line()


def _draw_cells(to: Console, row: GridRow, width: int) -> Iterator[Segment]:
    """Draw the cells of a row up to its last one. Adjacent cells of the same state are one segment."""
    newest = next((at for at, cell in enumerate(reversed(row.cells)) if cell), len(row.cells))
    for state, cells in groupby(row.cells[: len(row.cells) - newest], key=_state):
        glyph = state_character(state, to) if state else ""
        text = "".join(f"{_cell_text(cell, glyph) if cell else '':>{width}}" for cell in cells)
        yield Segment(text, to.get_style(LOOKS[state].style) if state else None)


def _state(cell: GridCell | None) -> State | None:
    return None if cell is None else cell.state


def _cell_text(cell: GridCell, glyph: str) -> str:
    return glyph if cell.is_all or cell.state is State.OK else f"{glyph}{cell.count}"


def _legend(to: Console, grid: Grid) -> Text:
    looks = [(f"{state_character(state, to)} ", f"{state}", LOOKS[state]) for state in grid.states]
    parts = [Text.assemble((glyph, look.style), (word, look.word)) for glyph, word, look in looks]
    counted = any(cell and _cell_text(cell, "") for row in grid.rows for cell in row.cells)
    if counted:
        parts.append(
            Text(
                "a number: how many of that day's labels"
                if grid.cadence.period.unit is TimeUnit.DAY
                else "a number: how many of the labels there",
                style="quiet",
            )
        )
    return Text("   ").join(parts)


def column_words(grid: Grid) -> str:
    """Describe the columns shown: `days of America/New_York, 2013-01-01 to 2013-01-05`."""
    if not grid.columns:
        return "no window starts within these labels"
    period = str(grid.cadence.period).lower()
    noun = f"{period}s" if " " not in period else f"spans of {period}"
    zone = "" if grid.cadence.zone == "UTC" else f" of {grid.cadence.zone}"
    first, last = (local_label(at, grid.cadence) for at in (grid.columns[0], grid.columns[-1]))
    return f"{noun}{zone}, {first} to {last}"


def now_line(now: datetime, words: str) -> Text:
    """Build the line above the grid: `words` that describe its columns, and the current time."""
    return Text(f"{words}; seen at {now:%Y-%m-%d %H:%MZ}", style="quiet")
