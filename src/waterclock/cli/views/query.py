"""Prints the rows of a query as a table, or as a block for each row if the table is too wide."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from waterclock.cli.views.theme import console
from waterclock.engine.query.query import AnsweredQuery
from waterclock.engine.spark.confined_jvm import why_unconfined
from waterclock.operations.query_results import ZonedQueryResult, answer_lines, count_line, is_number_type, value_words

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.dpl.project import Project

_GAP = 2
_FOLDED_WIDTH = 12  # letters that a longer value needs on a line, if it is folded over several lines
_MEASURED_ROWS = 100  # rows from which the width of a column is computed


def text_of(sql: str) -> str:
    """Return the query. If it is `-`, read it from stdin."""
    return sys.stdin.read() if sql == "-" else sql


def print_missing_sandbox(project: Project) -> None:
    """If the query runs without a sandbox, print the reason to stderr."""
    why = why_unconfined(project.spark)
    if why is not None:
        console(stderr=True).print(Text(f"the query runs without a sandbox: {why}", style="quiet"), soft_wrap=True)


def print_answer(answered: ZonedQueryResult, to: Console | None = None) -> None:
    """Print rows as a table with numbers aligned right. Print one block per row if the table is too wide."""
    to = to or console()
    answer = answered.answer
    if _fits_width(answer, to.width):
        to.print(answer_table(answer))
    else:
        print_records(answer, to)
    to.print(Text(count_line(answer), style="quiet"))
    for line in answer_lines(answer, answered.zone, can_make=answered.can_make):
        to.print(Text(line, style="quiet"), soft_wrap=True)


def answer_table(answer: AnsweredQuery) -> Table:
    """Return the rows as a table for the terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="quiet")
    is_number = [is_number_type(kind) for _, kind in answer.columns]
    for (name, _), right in zip(answer.columns, is_number, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in answer.rows:
        table.add_row(*(value_text(value) for value in row))
    return table


def print_records(answer: AnsweredQuery, to: Console) -> None:
    """Print each row as a block with one line per column."""
    width = max((len(name) for name, _ in answer.columns), default=0)
    for number, row in enumerate(answer.rows, start=1):
        to.print(Text(f"row {number}", style="head"))
        for (name, _), value in zip(answer.columns, row, strict=True):
            to.print(Text.assemble((f"  {name:<{width}}  ", "quiet"), value_text(value)), soft_wrap=True)


def _fits_width(answer: AnsweredQuery, width: int) -> bool:
    """Return whether the table fits in `width`. A long value needs at least 12 letters, because it can be folded."""
    needed = [
        max(len(name), *(value_text(row[at]).cell_len for row in answer.rows[:_MEASURED_ROWS]))
        if answer.rows
        else len(name)
        for at, (name, _) in enumerate(answer.columns)
    ]
    return sum(min(each, _FOLDED_WIDTH) + _GAP for each in needed) - _GAP <= width


def value_text(value: Any) -> Text:
    """Format a value of a query's result for people."""
    if value is None:
        return Text("null", style="quiet")
    return Text(value_words(value))
