"""Defines the results of commands, which a notebook displays as the terminal does, as text or as HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from waterclock.cli.views.diff import print_comparison, print_explanation
from waterclock.cli.views.query import print_answer, value_text
from waterclock.cli.views.theme import make_console, theme
from waterclock.operations.comparison_report import comparison_answer
from waterclock.operations.explanation_report import explanation_answer
from waterclock.operations.query_results import ZonedQueryResult, answer_lines, count_line, is_number_type

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from rich.console import Console

    from waterclock.engine.query.ticks import ResolvedTick
    from waterclock.flow.declarations import Flow
    from waterclock.operations.comparing import ComparedTable, Comparison
    from waterclock.operations.explaining import ExplainedCause, Explanation

WIDTH = 110
_PRE = "<pre style='line-height:1.25;overflow-x:auto;white-space:pre'>{code}</pre>"


@dataclass(frozen=True, slots=True, repr=False)
class CommandResult(ABC):
    """The result of a command. A cell that ends with it displays the terminal's output."""

    @abstractmethod
    def draw(self, to: Console) -> None:
        """Print the result as the command does."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the command's output with --json."""

    def __repr__(self) -> str:
        stream = StringIO()
        self.draw(make_console(stream, width=WIDTH))
        return stream.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        to = make_console(StringIO(), width=WIDTH)
        to.record = True
        with to.use_theme(theme("both")):  # a page may be light or dark
            self.draw(to)
            return to.export_html(code_format=_PRE, inline_styles=True)


@dataclass(frozen=True, slots=True, repr=False)
class QueryResult(CommandResult):
    """The rows of a query's result: iterate over them, or display them as a table."""

    zoned: ZonedQueryResult

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _ in self.zoned.answer.columns)

    @property
    def types(self) -> dict[str, str]:
        """Spark's type of each column."""
        return dict(self.zoned.answer.columns)

    @property
    def rows(self) -> tuple[tuple[Any, ...], ...]:
        """The rows, at most `limit` of them; `is_cut` shows whether there are more."""
        return self.zoned.answer.rows

    @property
    def is_cut(self) -> bool:
        """Whether there are more rows than `limit`."""
        return self.zoned.answer.is_cut

    @property
    def as_of(self) -> datetime | None:
        """The tick as of which the tables were read, or None if they were read as they are now."""
        return None if self._moment is None else self._moment.tick

    @property
    def known_at(self) -> datetime | None:
        """The instant up to which revisions count, or None if all of them count."""
        return None if self._moment is None else self._moment.known_at

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def draw(self, to: Console) -> None:
        """Print the rows as a table."""
        print_answer(self.zoned, to)

    def to_json(self) -> dict[str, Any]:
        """Return columns with their types, and rows as lists."""
        return self.zoned.to_json()

    @property
    def _moment(self) -> ResolvedTick | None:
        return self.zoned.answer.moment

    def _repr_html_(self) -> str:
        answer = self.zoned.answer
        styles = [f"text-align:{'right' if is_number_type(kind) else 'left'}" for _, kind in answer.columns]
        head = _html_cells("th", self.columns, styles)
        body = "".join(f"<tr>{_html_cells('td', map(_format_value, row), styles)}</tr>" for row in answer.rows)
        below = [count_line(answer, "limit="), *answer_lines(answer, self.zoned.zone)]
        notes = "".join(f"<div style='opacity:.7'>{escape(line)}</div>" for line in below)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


@dataclass(frozen=True, slots=True, repr=False)
class DiffResult(CommandResult):
    """The differences of tables. It is true if no label differs and all tables could be compared."""

    compared: Comparison
    flow: Flow

    @property
    def differs(self) -> bool:
        """Whether a label of a table differs."""
        return self.compared.differs

    @property
    def tables(self) -> tuple[ComparedTable, ...]:
        """The compared tables, each with its labels, columns and some rows that differ in `found`."""
        return self.compared.tables

    def __bool__(self) -> bool:
        return not self.compared.differs and not self.compared.has_failed

    def draw(self, to: Console) -> None:
        """Print each table, with its labels, columns and rows that differ."""
        print_comparison(to, self.compared, self.flow)

    def to_json(self) -> dict[str, Any]:
        """Return the differences of each table."""
        return comparison_answer(self.compared).to_json()


@dataclass(frozen=True, slots=True, repr=False)
class WhyResult(CommandResult):
    """What differs first upstream of a label. It is true if no selected label differs."""

    explained: Explanation
    flow: Flow

    @property
    def differs(self) -> bool:
        """Whether a selected label differs."""
        return self.explained.differs

    @property
    def causes(self) -> tuple[ExplainedCause, ...]:
        """What differs first, upstream tables first."""
        return self.explained.causes

    def __bool__(self) -> bool:
        return not self.explained.differs

    def draw(self, to: Console) -> None:
        """Print what differs first, and the batches through which it reaches the label."""
        print_explanation(to, self.explained, self.flow, is_markdown=False)

    def to_json(self) -> dict[str, Any]:
        """Return what differs first."""
        return explanation_answer(self.explained).to_json()


def _html_cells(tag: str, values: Any, styles: list[str]) -> str:
    cells = zip(values, styles, strict=True)
    return "".join(f"<{tag} style='{style};white-space:pre-wrap'>{escape(value)}</{tag}>" for value, style in cells)


def _format_value(value: Any) -> str:
    return value_text(value).plain
