"""Shows the rows of a query: as a table for people, as values for scripts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from waterclock.cli.views.theme import console
from waterclock.engine.query.query import Answer
from waterclock.operations.answers import Answered, count_line, is_number_type, moment_lines, value_words

if TYPE_CHECKING:
    from rich.console import Console


_GAP = 2
_ENOUGH = 12  # letters in which a longer value can be read, line below line
_LOOKED_AT = 100  # rows


def text_of(sql: str) -> str:
    """Return the query, read from stdin where it is `-`."""
    return sys.stdin.read() if sql == "-" else sql


def print_answer(told: Answered, to: Console | None = None) -> None:
    """Print rows as a table, numbers right; where a line is too short for so many columns, each row below the other."""
    to = to or console()
    answer = told.answer
    if _fits(answer, to.width):
        to.print(answer_table(answer))
    else:
        print_records(answer, to)
    to.print(Text(count_line(answer), style="quiet"))
    if answer.moment is not None:
        for line in moment_lines(answer.moment, told.zone, can_make=told.can_make):
            to.print(Text(line, style="quiet"), soft_wrap=True)


def answer_table(answer: Answer) -> Table:
    """Return the rows as a table for the terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="quiet")
    is_number = [is_number_type(kind) for _, kind in answer.columns]
    for (name, _), right in zip(answer.columns, is_number, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in answer.rows:
        table.add_row(*(value_text(value) for value in row))
    return table


def print_records(answer: Answer, to: Console) -> None:
    """Print each row as a block of lines, one a column."""
    width = max((len(name) for name, _ in answer.columns), default=0)
    for number, row in enumerate(answer.rows, start=1):
        to.print(Text(f"row {number}", style="head"))
        for (name, _), value in zip(answer.columns, row, strict=True):
            to.print(Text.assemble((f"  {name:<{width}}  ", "quiet"), value_text(value)), soft_wrap=True)


def _fits(answer: Answer, width: int) -> bool:
    """Tell whether every column finds room for its name and its values, or for some letters of them."""
    needed = [
        max(len(name), *(value_text(row[at]).cell_len for row in answer.rows[:_LOOKED_AT]))
        if answer.rows
        else len(name)
        for at, (name, _) in enumerate(answer.columns)
    ]
    return sum(min(each, _ENOUGH) + _GAP for each in needed) - _GAP <= width


def value_text(value: Any) -> Text:
    """Return a value of Spark's as people read it."""
    if value is None:
        return Text("null", style="quiet")
    return Text(value_words(value))
