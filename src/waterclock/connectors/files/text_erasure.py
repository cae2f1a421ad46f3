"""Removes rows of erased persons from files of text: CSV, JSON and fixed width. All other bytes stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import IO

from waterclock.connectors.files.csv_records import (
    Quotes,
    Record,
    is_blank,
    quotes_of,
    split_raw_records,
    without_line_end,
)
from waterclock.connectors.files.encodings import MOST_OF_A_LINE, lines_of
from waterclock.connectors.files.exact_text import open_exact_text
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.json_erasure import JsonEdit, OuterSubject, edit_json, edit_lines
from waterclock.connectors.original_erasure import Subjects
from waterclock.flow.declarations import Columns

Write = Callable[[str], None]
EditText = Callable[[IO[str], Write | None], tuple[int, int, int]]
"""Passes the remaining text of a file to a function. Returns the rows, the removed rows, and the unread ones."""


def edit_file(path: str, encoding: str, edit: EditText, sink: IO[bytes] | None) -> tuple[int, int, int]:
    """Edit a file, and write the remaining text to `sink`, if any. Return the rows, removed and unread rows.

    Raises OSError, EOFError, UnicodeError and zlib.error for a file that cannot be read.
    """
    with open_exact_text(path, encoding) as text:
        if sink is None:
            return edit(text.file, None)

        def write(part: str) -> None:
            sink.write(text.encode(part))

        sink.write(text.mark)
        return edit(text.file, write)


def csv_edit(path: str, reading: ReadOptions, columns: Columns, subjects: Subjects) -> EditText:
    """Return the function that edits a CSV file."""
    return partial(_edit_csv, quotes_of(reading, reading.delimiter_of(path)), reading, columns, subjects)


def _edit_csv(
    quotes: Quotes, reading: ReadOptions, columns: Columns, subjects: Subjects, file: IO[str], write: Write | None
) -> tuple[int, int, int]:
    rows = removed = unread = 0
    places: dict[int, str] | None = None
    width = 0
    if not reading.has_header:
        places = _places_of([column.name for column in columns.named], subjects)
    for record in split_raw_records(lines_of(file), quotes):
        is_kept = True
        if is_blank(record.text):
            pass
        elif places is None:
            header = _fields(without_line_end(record.text), quotes)
            places, width = _places_of([field[-1] for field in header], subjects), len(header)
        else:
            rows += 1
            width = width or len(_fields(without_line_end(record.text), quotes))
            is_kept = not _is_erased_record(record, quotes, places, subjects, reading.null)
            removed += not is_kept
            unread += is_kept and _is_broken(record, quotes, width)
        if is_kept and write is not None:
            write(record.text)
    return rows, removed, unread


def _places_of(names: list[str], subjects: Subjects) -> dict[int, str]:
    """Return the folded names of the identifying columns by their position in a row."""
    return {at: column for at, name in enumerate(names) if (column := subjects.column_of(name)) is not None}


def _is_erased_record(record: Record, quotes: Quotes, places: dict[int, str], subjects: Subjects, null: str) -> bool:
    if not places:
        return False
    text = without_line_end(record.text)
    fields = _fields(text, quotes, max(places) + 1)
    for at, column in places.items():
        # both readings of a field whose quotes are broken
        if at < len(fields) and any(value != null and subjects.is_erased(column, value) for value in fields[at]):
            return True
    return False


def _is_broken(record: Record, quotes: Quotes, width: int) -> bool:
    text = without_line_end(record.text)
    if not quotes.quote or quotes.quote not in text:
        return text.count(quotes.delimiter) != width - 1
    return record.is_open or len(_fields(text, quotes)) != width


def _fields(text: str, quotes: Quotes, most: int = -1) -> list[tuple[str, ...]]:
    """Split a record into fields, up to `most` of them. Each is its text and, if that is quoted, its value at the end.

    As in Spark, a quoted text that is followed by other characters than a delimiter is the value as it is.
    """
    if not quotes.quote or quotes.quote not in text:
        return [(field,) for field in text.split(quotes.delimiter, most)[: most if most >= 0 else None]]
    fields: list[tuple[str, ...]] = []
    at = 0
    while len(fields) != most:
        start, end = at, -1
        if text.startswith(quotes.quote, at):
            end = quotes.find_closing_quote(text, at + len(quotes.quote))
        end = text.find(quotes.delimiter, max(at, end))
        raw = text[start:] if end < 0 else text[start:end]
        fields.append((raw, quotes.unquote(raw)) if raw.startswith(quotes.quote) else (raw,))
        if end < 0:
            break
        at = end + len(quotes.delimiter)
    return fields


def fixed_width_edit(reading: ReadOptions, subjects: Subjects) -> EditText:
    """Return the function that edits a file with fields of fixed width."""
    places = {
        position: column for position in reading.positions if (column := subjects.column_of(position.name)) is not None
    }

    def edit_line(line: str) -> JsonEdit:
        text = without_line_end(line)
        for position, column in places.items():
            value = text[position.first - 1 : position.last].strip(" ")
            if value not in ("", reading.null) and subjects.is_erased(column, value):
                return JsonEdit(None, 1, 1)
        return JsonEdit(line, 1, is_read=True)

    return lambda file, write: edit_lines(lines_of(file), edit_line, write)


def json_edit(reading: ReadOptions, subjects: Subjects) -> EditText:
    """Return the function that edits a JSON file: lines, or one document."""
    outer = [
        OuterSubject(one.depth, one.rest, column)
        for one in reading.outer
        if (column := subjects.column_of(one.name)) is not None
    ]

    def edit(text: str) -> JsonEdit:
        return edit_json(text, subjects, reading.rows, outer)

    if reading.is_multiline:
        return lambda file, write: edit_lines(_document_of(file), lambda text: _edit_document(text, edit), write)
    return lambda file, write: edit_lines(lines_of(file), edit, write)


def _document_of(file: IO[str]) -> Iterator[str]:
    text = file.read(MOST_OF_A_LINE)
    if len(text) == MOST_OF_A_LINE:
        raise EOFError(f"a document of {MOST_OF_A_LINE} characters or more is not rewritten")
    yield text


def _edit_document(text: str, edit: Callable[[str], JsonEdit]) -> JsonEdit:
    result = edit(text)
    if result.text is None:
        result.text = "[]\n"  # a document without rows; an empty file counts as incomplete
    return result
