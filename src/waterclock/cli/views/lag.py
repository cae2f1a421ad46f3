"""Prints the lag of tables: up to when each is done, and how long after its windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.table import Table as Columns
from rich.text import Text

from waterclock.operations.formatting import count_words, number_words, span_words
from waterclock.operations.lag import Lag

if TYPE_CHECKING:
    from rich.console import Console

_NONE = "-"
_NAMES = ("done to", "age", "inputs", "labels", "rows", "p50", "p95", "max", "late")
_NOW_COLUMNS = 5  # the first columns, which are about the current state
_UNLIMITED_WIDTH = 1000


def print_lags(to: Console, found: Sequence[Lag], now: datetime) -> None:
    """Print a line for each table, in the order of the flow."""
    to.print(Text(f"now {now:%Y-%m-%d %H:%MZ}", style="quiet"))
    to.print()
    cells = {each.table: _build_cells(each) for each in found}
    whole = _build_table(_NAMES, cells)
    if whole.__rich_measure__(to, to.options.update(max_width=_UNLIMITED_WIDTH)).maximum <= to.width:
        to.print(whole)
    else:  # a narrow terminal gets a second table with the spans
        to.print(_build_table(_NAMES[:_NOW_COLUMNS], {name: of[:_NOW_COLUMNS] for name, of in cells.items()}))
        to.print()
        to.print(_build_table(_NAMES[_NOW_COLUMNS:], {name: of[_NOW_COLUMNS:] for name, of in cells.items()}))
    to.print()
    counted = max((each.delays.labels for each in found if each.delays is not None), default=0)
    sample = f"of up to {count_words(counted, 'label')}" if counted else "known once batches run when due"
    for line in (
        "age: how long ago the newest done window ended, which grows until the next one is done",
        "inputs: how much further the inputs of the table are done; rows: the rows of its inputs from there on",
        f"p50, p95, max: how long after its window a label was done, {sample}; late: how many of these after DEADLINE",
    ):
        to.print(Text(line, style="quiet"), soft_wrap=True)
    to.print()
    if reached := [each for each in found if each.reached_words]:
        for each in reached:
            to.print(Text.assemble((each.table, "name"), f" {each.reached_words}"), soft_wrap=True)
        to.print()


def _build_table(names: Sequence[str], cells: Mapping[str, Sequence[str]]) -> Columns:
    rows = Columns(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="quiet")
    rows.add_column("table", no_wrap=True, style="name")
    for name in names:
        rows.add_column(name, no_wrap=True, justify="left" if name == _NAMES[0] else "right")
    for name, of_table in cells.items():
        rows.add_row(name, *of_table)
    return rows


def _build_cells(each: Lag) -> tuple[str, ...]:
    to = _NONE if each.fresh_to is None else f"{each.fresh_to:%Y-%m-%d %H:%MZ}"
    behind = _NONE if each.behind is None else span_words(each.behind)
    ahead = _NONE if each.ahead is None else span_words(each.ahead)
    rows = _NONE if each.rows is None else f"{number_words(each.rows)}{'+' if each.is_more else ''}"
    delays = each.delays
    if delays is None:
        return to, behind, ahead, number_words(each.labels), rows, *(_NONE,) * 4
    late = _NONE if delays.late is None else f"{delays.late} of {delays.labels}"
    spans = (span_words(span) for span in (delays.p50, delays.p95, delays.most))
    return to, behind, ahead, number_words(each.labels), rows, *spans, late
