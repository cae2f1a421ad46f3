"""Prints a comparison of tables, or why a label differs: for the terminal, or as Markdown for a review."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from waterclock.cli.views.error_card import show_errors
from waterclock.cli.views.output import write_out
from waterclock.operations.comparing import Comparison
from waterclock.operations.comparison_report import ReportSection, TableReport, report_tables, summarize
from waterclock.operations.explaining import Explanation
from waterclock.operations.explanation_report import report_explanation, summarize_explanation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from waterclock.flow.declarations import Flow

# characters that Markdown or HTML in it would interpret within a cell
_MARKS = re.compile(r"([\\`*_{}\[\]<>|~#&!$@%])")
# places within what code hosts turn into links, pictures or messages to users, although it is escaped
_LINKS = re.compile(
    r"(?i)(?<=[@#])(?=\w)|(?<=\bwww)(?=\.)|(?<=:)(?=//)|(?<=\bmailto:)|(?<=\bxmpp:)|(?<=\bGH)(?=-\d)"
    r"|(?<=:)(?=(?:\d*[a-z_+-][\w+-]*|100|1234):)"  # the names of pictures
)
_BREAK = "<!-- -->"  # not visible, ends a link


def print_comparison(to: Console, compared: Comparison, flow: Flow) -> None:
    """Print each table with its summary, and tables of labels, measures, types, columns and rows that differ."""
    _print_reports(to, report_tables(compared, flow))
    show_errors(to, [each.error for each in compared.tables if each.error is not None])
    to.print(Text(summarize(compared)), soft_wrap=True)


def print_explanation(to: Console, explained: Explanation, flow: Flow, *, is_markdown: bool) -> None:
    """Print why a label differs: what differs first, and the batches through which it reaches the label."""
    summary, reports = summarize_explanation(explained), [report_explanation(explained, flow)]
    if is_markdown:
        write_out("".join(f"{line}\n" for line in _markdown_lines(summary, reports)))
        return
    _print_reports(to, reports)
    to.print(Text(summary), soft_wrap=True)


def _print_reports(to: Console, reports: Sequence[TableReport]) -> None:
    for report in reports:
        to.print(Text.assemble((report.name, "head"), "  ", (report.summary, "warn" if report.differs else "quiet")))
        for note in report.notes:
            to.print(Text(f"  {note}", style="quiet"), soft_wrap=True)
        for section in report.sections:
            to.print()
            to.print(_draw(section))
            if section.note:
                to.print(Text(f"  {section.note}", style="quiet"), soft_wrap=True)
        if report.sections:
            to.print()


def _draw(section: ReportSection) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="quiet")
    table.add_column("")
    for at, name in enumerate(section.head):
        is_number = at in section.numbers
        # in a narrow terminal, texts are wrapped: a column that is not wrapped would be cut, or left out
        table.add_column(name, justify="right" if is_number else "left", overflow="fold", no_wrap=at == 0 or is_number)
    for row in section.rows:
        table.add_row("", *map(Text, row))
    return table


def print_markdown(compared: Comparison, flow: Flow) -> None:
    """Print the comparison as Markdown. Values of rows are escaped: they cannot format the page or link to others."""
    write_out("".join(f"{line}\n" for line in _markdown_lines(summarize(compared), report_tables(compared, flow))))


def _markdown_lines(summary: str, reports: Sequence[TableReport]) -> Iterator[str]:
    yield _escape(summary)
    for report in reports:
        yield from ("", f"### {_escape(report.name)}", "", _escape(report.summary))
        yield from (
            "" if note is None else f"- {_escape(note)}" for note in ((None, *report.notes) if report.notes else ())
        )
        for section in report.sections:
            yield from ("", _markdown_row(section.head))
            yield _markdown_row(
                ["--:" if at in section.numbers else "---" for at in range(len(section.head))], is_raw=True
            )
            yield from map(_markdown_row, section.rows)
            if section.note:
                yield from ("", _escape(section.note))


def _markdown_row(cells: tuple[str, ...] | list[str], *, is_raw: bool = False) -> str:
    return f"| {' | '.join(cells if is_raw else map(_escape, cells))} |"


def _escape(text: str) -> str:
    return _BREAK.join(_MARKS.sub(r"\\\1", part) for part in _LINKS.split(text))
