"""Shows how far tables are behind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.table import Table as Columns
from rich.text import Text

from waterclock.operations.lag import Lag
from waterclock.operations.words import count_words, number_words, span_words

if TYPE_CHECKING:
    from rich.console import Console

_NONE = "-"


def print_lags(to: Console, found: Sequence[Lag], now: datetime) -> None:
    """Print a line for each table, in the order of the flow."""
    to.print(Text(f"now {now:%Y-%m-%d %H:%MZ}", style="quiet"))
    to.print()
    rows = Columns(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="quiet")
    rows.add_column("table", no_wrap=True, style="name")
    rows.add_column("done to", no_wrap=True)
    names = ("behind", "inputs", "labels", "rows", "p50", "p95", "max", "late")
    for name in names:
        rows.add_column(name, no_wrap=True, justify="right")
    for each in found:
        rows.add_row(each.table, *_cells(each))
    to.print(rows)
    to.print()
    counted = max((each.delays.labels for each in found if each.delays is not None), default=0)
    said = f"of up to {count_words(counted, 'label')}" if counted else "once labels are done in their time"
    for line in (
        "inputs: how much further all is done that the table reads; rows: what its inputs hold from there on",
        f"p50, p95, max: how long after its window a label was done, {said}; late: of these, after DEADLINE",
    ):
        to.print(Text(line, style="quiet"), soft_wrap=True)
    to.print()


def _cells(each: Lag) -> tuple[str, ...]:
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
