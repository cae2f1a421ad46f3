"""The page of a query, now or as of a tick: its rows as a table, a plot, and a CSV file."""

from __future__ import annotations

import csv
import io
from datetime import datetime
from typing import Any

from waterclock.connectors.files.file_writing import FORMULA
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.flow.table_visibility import TableVisibility, form_of
from waterclock.operations.formatting import number_words
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.query_results import (
    ZonedQueryResult,
    answer_lines,
    count_line,
    is_number_type,
    plain_value,
    value_words,
)
from waterclock.ui.page_query import Content, PageQuery
from waterclock.ui.query_queue import QueryQueue

LIMIT = 200  # rows shown on a page
LIMIT_OF_FILE = 100_000
_MOST_BARS = 60
_LONGEST = 10_000  # characters of a query


def query(at: OpenedProject, parameters: PageQuery, asker: QueryQueue) -> Content:
    """Run the query `q` of the address, as of `as-of` if it is given, and return its rows. Without `q`, none runs.

    The first query starts Spark, which takes some ten seconds. Errors of the query are part of the content and do not
    fail the page.
    """
    sql, tick = parameters.values.get("q", "").strip(), parameters.values.get("as-of", "").strip()
    content: Content = {
        "sql": sql,
        "as_of": tick,
        "example": _example_query(at, parameters),
        "errors": [],
        "answer": None,
    }
    if not sql:
        return content
    try:
        _require_valid_length(sql)
        found = asker.ask(at.project, sql, LIMIT, as_of=tick or None, reader=parameters.reader)
    except WaterclockError as error:
        every = error.errors if isinstance(error, ProjectErrors) else (error,)
        return content | {"errors": [one.to_dict() for one in every]}
    return content | {
        "answer": found.to_json(),
        "description": count_line(found.answer, "CSV"),
        "lines": answer_lines(found.answer, found.zone),
        "numbers": [is_number_type(kind) for _, kind in found.answer.columns],
        "texts": [[_format_value(value) for value in row] for row in found.answer.rows],
        "plot": _build_bar_chart(found),
    }


def build_csv(at: OpenedProject, parameters: PageQuery, asker: QueryQueue) -> str:
    """Run the query of the address, and return up to LIMIT_OF_FILE rows as CSV with a header line. NULL is empty.

    With `formulas=escape`, texts that a spreadsheet would treat as formulas are prefixed with an apostrophe.
    """
    sql, tick = parameters.values.get("q", "").strip(), parameters.values.get("as-of", "").strip()
    _require_valid_length(sql)
    found = asker.ask(at.project, sql, LIMIT_OF_FILE, as_of=tick or None, reader=parameters.reader)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    escape = _escape_formula if parameters.values.get("formulas") == "escape" else str
    writer.writerow([escape(name) for name, _ in found.answer.columns])
    are_texts = [not is_number_type(kind) for _, kind in found.answer.columns]
    for row in found.answer.rows:
        texts = ["" if value is None else _format_csv_value(value) for value in row]
        writer.writerow([escape(text) if is_text else text for text, is_text in zip(texts, are_texts, strict=True)])
    return out.getvalue()


def _escape_formula(text: str) -> str:
    return f"'{text}" if FORMULA.match(text) else text


def _format_csv_value(value: Any) -> str:
    """Format a value for CSV, with instants as `2013-01-05T05:00:00Z`."""
    return str(plain_value(value)) if isinstance(value, datetime) else value_words(value)


def _require_valid_length(sql: str) -> None:
    """Raise E210 for a query that is empty or too long. A truncated query would be another query."""
    if not sql:  # no process is started for it
        raise WaterclockError("E210", "there is no query", fix="write one SELECT")
    if len(sql) > _LONGEST:
        raise WaterclockError(
            "E210",
            f"a query of {number_words(len(sql))} characters is too long for a page",
            why=f"the limit is {number_words(_LONGEST)}",
            fix="run it with `waterclock query`",
        )


def _example_query(at: OpenedProject, parameters: PageQuery) -> str:
    """Return an example query of the last declared table that is not a publish and that the reader sees."""
    person = parameters.reader.person if parameters.reader is not None else None
    made = [
        name for name in at.flow.order
        if at.flow.tables[name].destination is None
        and (person is None or form_of(at.flow, person, name) is not TableVisibility.NONE)
    ]  # fmt: skip
    return f"SELECT * FROM {made[-1]}" if made else "SELECT * FROM waterclock.batches"


def _format_value(value: Any) -> str:
    return "NULL" if value is None else value_words(value)


def _build_bar_chart(found: ZonedQueryResult) -> Content | None:
    """Return bars of the first numeric column by the first other column, or None if the rows do not fit a bar chart."""
    answer = found.answer
    numbers = [index for index, (_, kind) in enumerate(answer.columns) if is_number_type(kind)]
    others = [index for index in range(len(answer.columns)) if index not in numbers]
    if not numbers or not others or not 2 <= len(answer.rows) <= _MOST_BARS:
        return None
    height, name = numbers[0], others[0]
    values = [float(row[height]) for row in answer.rows if row[height] is not None]
    if len(values) != len(answer.rows) or any(value != value or abs(value) == float("inf") for value in values):  # noqa: PLR0124 - NaN
        return None
    low, high = min(0.0, *values), max(0.0, *values)
    scale = (high - low) or 1.0
    return {
        "of": answer.columns[height][0],
        "by": answer.columns[name][0],
        "zero": round((high / scale) * 100, 2),
        "bars": [
            {
                "name": _format_value(row[name]),
                "value": _format_value(row[height]),
                "y": round((high - max(value, 0.0)) / scale * 100, 2),
                "height": round(max(abs(value) / scale * 100, 0.5), 2),
            }
            for row, value in zip(answer.rows, values, strict=True)
        ],
    }
