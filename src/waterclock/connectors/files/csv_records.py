"""Splits CSV into records according to RFC 4180, in which a quoted field may contain line breaks.

A quote that opens a field must be closed before the end of the file and within `MOST_OF_A_RECORD`, by a quote that ends
the field. If a record over several lines breaks this rule, its first line is a broken row, and the next line starts a
new record. Pure functions, in bounded memory.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import IO, TYPE_CHECKING

from waterclock.connectors.files.encodings import decode_file, decompress_file, lines_of
from waterclock.connectors.files.python_readers import NUMBER, Reader
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.spark_sql import sql_text

if TYPE_CHECKING:
    import pyarrow as pa

TEXT, IS_OPEN = "_waterclock_record", "_waterclock_open"
MOST_OF_A_RECORD = 16 << 20
_BATCH_ROWS, _BATCH_CHARACTERS = 10_000, 4 << 20
_BLANK = "".join(map(chr, range(0x21)))


@dataclass(frozen=True, slots=True)
class Record:
    """A record, without its line end unless it is raw, and the number of its first line, from 1.

    `is_open`: a quote in it is not closed.
    """

    line: int
    text: str
    is_open: bool = False


@dataclass(frozen=True)
class Quotes:
    """The quoting rules of a CSV file. `escape` is empty if quotes within quoted fields are doubled."""

    delimiter: str
    quote: str
    escape: str = ""

    def is_open_after(self, text: str, *, is_open: bool = False) -> bool | None:
        """Return whether a quoted field is still open at the end of a line.

        `is_open`: the line begins within a quoted field. The result is None if that field's closing quote is not
        followed by a delimiter.
        """
        if not self.quote:
            return False
        at, begun_before = 0, is_open
        if not is_open and text.startswith(self.quote):
            at, is_open = len(self.quote), True
        while True:
            if is_open:
                at = self.find_closing_quote(text, at)
                if at < 0:
                    return True
                if at < len(text) and not text.startswith(self.delimiter, at) and begun_before:
                    return None
                begun_before = False
            at = text.find(self.delimiter + self.quote, at)
            if at < 0:
                return False
            at, is_open = at + len(self.delimiter + self.quote), True

    @property
    def open_in_sql(self) -> str:
        """An SQL condition on the line `value`: whether a quoted field may be open at its end.

        It may be true for a line without an open field, but is never false for one with an open field.
        """
        of = re.escape
        escaped = sql_text(f"{of(self.escape)}.") if self.escape else sql_text(of(self.quote * 2))
        edge, quote = of(self.delimiter), of(self.quote)
        bare = f"regexp_replace(value, {escaped}, '')"
        closed = sql_text(f"(^|{edge}){quote}[^{quote}]*{quote}(?={edge}|$)")
        opened = sql_text(f"(^|{edge}){quote}")
        is_open = f"regexp_replace({bare}, {closed}, '$1') RLIKE {opened}"
        return f"CASE WHEN contains(value, {sql_text(self.quote)}) THEN {is_open} ELSE FALSE END"

    def find_closing_quote(self, text: str, at: int) -> int:
        """Return the index after the quote that closes a field; -1 if no quote does."""
        if self.escape:
            found = next((each for each in self._quote_signs.finditer(text, at) if each[0] == self.quote), None)
            return found.end() if found else -1
        while (at := text.find(self.quote, at)) >= 0:
            if not text.startswith(self.quote, at + 1):
                return at + 1
            at += 2
        return -1

    def unquote(self, text: str) -> str:
        """Return the value of a field that begins with a quote; the text itself if it is no correctly quoted field."""
        end = self.find_closing_quote(text, len(self.quote))
        if end != len(text):
            return text
        inner = text[len(self.quote) : end - len(self.quote)]
        if not self.escape:
            return inner.replace(self.quote * 2, self.quote)
        return self._escaped.sub(r"\1", inner)

    @cached_property
    def _escaped(self) -> re.Pattern[str]:
        return re.compile(rf"{re.escape(self.escape)}({re.escape(self.quote)}|{re.escape(self.escape)})")

    @cached_property
    def _quote_signs(self) -> re.Pattern[str]:
        return re.compile(rf"{re.escape(self.escape)}.|{re.escape(self.quote)}", re.DOTALL)


def quotes_of(reading: ReadOptions, delimiter: str) -> Quotes:
    """Return the quoting rules that the options of a COLLECT declare."""
    return Quotes(delimiter, reading.quote, "" if reading.escape == reading.quote else reading.escape)


def split_records(lines: Iterable[str], quotes: Quotes) -> Iterator[Record]:
    """Split lines, which include their line ends, into records. Blank lines between records are skipped, as Spark does.

    Cost: see `split_raw_records`.
    """
    for record in split_raw_records(lines, quotes):
        if not is_blank(record.text):
            yield Record(record.line, without_line_end(record.text), record.is_open)


def is_blank(line: str) -> bool:
    """Return whether a line is blank, which Spark's reader of CSV skips."""
    return not line.strip(_BLANK)


def split_raw_records(lines: Iterable[str], quotes: Quotes) -> Iterator[Record]:
    """Split lines into records and the blank lines between them, with their line ends: together they are the lines.

    Cost: each line is parsed at most twice. Lines that were read ahead for one record are not parsed again for the
    next: whether a field that is open before a line is open after it does not depend on where the field begins.
    """
    numbered = enumerate(lines, 1)
    ahead: deque[tuple[int, str]] = deque()
    characters = 0  # of the lines ahead
    is_open: bool | None = True  # whether a field that is open before the lines ahead is open after them
    while (found := ahead.popleft() if ahead else next(numbered, None)) is not None:
        number, line = found
        characters, is_open = (characters - len(line), is_open) if ahead else (0, True)
        if is_blank(line) or quotes.quote not in line or not quotes.is_open_after(without_line_end(line)):
            yield Record(number, line)
            continue
        while is_open and len(line) + characters <= MOST_OF_A_RECORD and (more := next(numbered, None)) is not None:
            ahead.append(more)
            characters += len(more[1])
            is_open = quotes.is_open_after(without_line_end(more[1]), is_open=True)
        if is_open is False:
            yield Record(number, line + "".join(text for _, text in ahead))
            ahead.clear()
            characters, is_open = 0, True
        else:
            yield Record(number, line, is_open=True)


def without_line_end(line: str) -> str:
    """Return a line without its line end."""
    return line[:-2] if line.endswith("\r\n") else line[:-1] if line.endswith(("\n", "\r")) else line


def has_open_lines(lines: Iterable[str], quotes: Quotes) -> bool:
    """Return whether a quoted field is open at the end of any line. If not, each line is a record."""
    if not quotes.quote:
        return False
    return any(quotes.quote in line and quotes.is_open_after(without_line_end(line)) for line in lines)


def reader_of(reading: ReadOptions, delimiter: str, compression: str) -> Reader:
    """Return a function that reads a file into batches of records: text, whether a quote is open, and line number."""
    quotes = quotes_of(reading, delimiter)

    def batches(file: IO[bytes]) -> Iterator[pa.RecordBatch]:
        found = split_records(lines_of(decode_file(decompress_file(file, compression), reading.encoding)), quotes)
        if reading.has_header:
            next(found, None)
        batch: list[Record] = []
        characters = 0
        for record in found:
            batch.append(record)
            characters += len(record.text)
            if len(batch) >= _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
                yield _build_batch(batch)
                batch, characters = [], 0
        if batch:
            yield _build_batch(batch)

    return batches


def _build_batch(found: list[Record]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [
            pa.array([record.text for record in found], pa.string()),
            pa.array([record.is_open for record in found], pa.bool_()),
            pa.array([record.line for record in found], pa.int64()),
        ],
        [TEXT, IS_OPEN, NUMBER],
    )
