"""The grid on a terminal: quiet rows, and a thousand of them at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console

from waterclock.cli.views.grid_drawing import print_grid
from waterclock.cli.views.theme import make_console
from waterclock.operations.display_states import State
from waterclock.operations.grid import Grid, GridCell, GridRow
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import Period, TimeUnit

if TYPE_CHECKING:
    import pytest

BY = Cadence(Period(TimeUnit.DAY), zone="UTC")
DONE = GridCell(State.OK, 1, 1)
FAILED = GridCell(State.FAILED, 1, 2)


def grid(*rows: GridRow) -> Grid:
    first = datetime(2013, 1, 1, tzinfo=UTC)
    return Grid(BY, tuple(first + at * timedelta(days=1) for at in range(len(rows[0].cells))), rows)


def lines(shown: Grid, to: Console) -> list[str]:
    print_grid(to, shown)
    assert isinstance(to.file, StringIO)
    return to.file.getvalue().splitlines()


def test_grid_cells_are_aligned_with_their_columns_without_trailing_spaces() -> None:
    shared = (DONE, DONE, None)
    shown = grid(
        GridRow("raw.a", shared),
        GridRow("raw.long", shared),
        GridRow("raw.none", (None,) * 3),
        GridRow("core.b", (None, FAILED, DONE)),
    )
    assert lines(shown, make_console(StringIO(), width=60))[2:7] == [
        "raw.a     ■  ■",
        "raw.long  ■  ■",
        "raw.none",
        "",
        "core.b      ✕1  ■",
    ]


def test_a_grid_without_columns_shows_its_rows() -> None:
    assert "raw.a" in lines(grid(GridRow("raw.a", ())), make_console(StringIO(), width=60))


def test_many_rows_are_printed_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    to, printed = make_console(StringIO(), width=60), []
    through = Console.print

    def counted(*said: Any, **how: Any) -> None:
        printed.append(said)
        through(*said, **how)

    monkeypatch.setattr(Console, "print", counted)
    assert len(lines(grid(*(GridRow(f"raw.a{at}", (DONE,)) for at in range(1000))), to)) > 1000
    assert len(printed) < 10
