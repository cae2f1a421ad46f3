"""Shows the rows of a query: as a table for people, as values for scripts."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from waterclock.cli.views.theme import console
from waterclock.engine.opening import open_workplace
from waterclock.engine.query.query import Answer, preview, query
from waterclock.engine.query.ticks import AsOf, Gap, Moment
from waterclock.operations.opening import open_project, zone_of
from waterclock.operations.words import count_words, instant_words, label_range
from waterclock.timelabel.label import label_of
from waterclock.timelabel.zone import parse_instant

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.dpl.project import Project
    from waterclock.engine.spark.session import Sessions

_GAP = 2
_ENOUGH = 12  # letters in which a longer value can be read, line below line
_LOOKED_AT = 100  # rows
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


@dataclass(frozen=True, slots=True)
class Told:
    """An answer, ready to be shown. `can_make`: what it needs and has not followed can be made first."""

    answer: Answer
    zone: str = "UTC"
    can_make: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return columns with their types, and rows as lists in the columns' order."""
        moment = self.answer.moment
        return {
            "columns": [{"name": name, "type": kind} for name, kind in self.answer.columns],
            "rows": [[_plain(value) for value in row] for row in self.answer.rows],
            "is_cut": self.answer.is_cut,
            "as_of": None if moment is None else _plain(moment.tick),
            "known_at": None if moment is None or moment.known_at is None else _plain(moment.known_at),
            "is_rippling": moment is not None and moment.is_rippling,
            "behind": [] if moment is None else _behind(moment),
            "missing": [] if moment is None else [_gap(gap) for gap in moment.missing],
            "awaited": [] if moment is None else [_gap(gap) for gap in moment.awaited],
        }


def text_of(sql: str) -> str:
    """Return the query, read from stdin where it is `-`."""
    return sys.stdin.read() if sql == "-" else sql


def asked(
    project: Project,
    sql: str,
    limit: int,
    *,
    as_of: str | None = None,
    known_at: str | None = None,
    partial: bool = False,
    sessions: Sessions | None = None,
) -> Told:
    """Ask a query of a project's tables, as they are or as of a tick; `sessions` that are given are left open."""
    with open_workplace(project, sessions=sessions, is_question=True) as work:
        zone = zone_of(work.flow)
        known = None if known_at is None else parse_instant(known_at, zone)
        moment = None if as_of is None else AsOf(as_of, known, zone, is_partial=partial)
        return Told(query(work, sql, limit=limit, as_of=moment), zone, can_make=known is None)


def some_rows(folder: Path, env: str | None, table: str, limit: int) -> Told:
    """Return some rows of a table's newest label."""
    with open_workplace(open_project(folder, env), is_question=True) as work:
        return Told(preview(work, table, limit=limit), zone_of(work.flow))


def print_answer(told: Told, to: Console | None = None) -> None:
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


def count_line(answer: Answer, more: str = "--limit") -> str:
    """Say how many rows there are, and what shows `more` of them."""
    count = count_words(len(answer.rows), "row")
    return f"the first {count}; {more} shows more" if answer.is_cut else count


def moment_lines(moment: Moment, zone: str, *, can_make: bool = False) -> list[str]:
    """Say as of which tick an answer is, and as known when; while a ripple runs, that it is the one before."""
    lines = [f"as of {instant_words(moment.tick, zone)}, tick {label_of(moment.tick)}"]
    if moment.known_at is not None:
        lines[0] += f", as known at {instant_words(moment.known_at, zone)}"
    if moment.is_rippling:
        said = "what it reads was restated since, and not all has followed: this is the answer known before"
        lines += [said, *(f"  {_batches(each['table'], each['labels'])} not followed" for each in _behind(moment))]
        lines += ["--make makes what has not followed, and then answers"] if can_make else []
    lines += [f"without {_labels(gap)}: not there" for gap in moment.missing]
    lines += [f"newer ticks wait for {_labels(gap)}; `waterclock plan` says why" for gap in moment.awaited]
    return lines


def _batches(table: str, labels: list[str]) -> str:
    """Write batches of a table, the oldest by name."""
    more = len(labels) - 1
    return f"{table}@{labels[0]} has" if not more else f"{table}@{labels[0]} and {count_words(more, 'other')} have"


def _labels(gap: Gap) -> str:
    counted = f", {count_words(gap.labels, 'label')}" if gap.labels > 1 else ""
    return f"{gap.table}@{label_range(gap.first, gap.last)}{counted}"


def _behind(moment: Moment) -> list[dict[str, Any]]:
    return [{"table": name, "labels": [label_of(at) for at in labels]} for name, labels in moment.behind.items()]


def _gap(gap: Gap) -> dict[str, Any]:
    return {"table": gap.table, "first": label_of(gap.first), "last": label_of(gap.last), "labels": gap.labels}


def answer_table(answer: Answer) -> Table:
    """Return the rows as a table for the terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="quiet")
    is_number = [is_number_type(kind) for _, kind in answer.columns]
    for (name, _), right in zip(answer.columns, is_number, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in answer.rows:
        table.add_row(*(value_text(value) for value in row))
    return table


def is_number_type(kind: str) -> bool:
    """Tell whether values of a type are numbers, which stand right in a column."""
    return kind.startswith(_NUMBERS)


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
    if isinstance(value, bool):
        return Text("true" if value else "false")
    if isinstance(value, datetime):
        return Text(f"{value:%Y-%m-%d %H:%M:%S}" + (f".{value.microsecond:06d}" if value.microsecond else ""))
    if isinstance(value, bytes | bytearray):
        return Text(bytes(value).hex())
    return Text(str(_plain(value)))


def _plain(value: Any) -> Any:
    """Return a value of Spark's as JSON can hold it."""
    if hasattr(value, "asDict"):
        return {name: _plain(inner) for name, inner in value.asDict().items()}
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
