"""Replaces the tables, views and values that a query names in its text. All other characters remain unchanged."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from waterclock.dpl.syntax.source_text import SourceText
from waterclock.flow.declarations import Flat, Place, Query, Read, TableReference, ValueReference
from waterclock.flow.watermarks import watermark_in
from waterclock.spark_sql import quote_name

MARKERS = {
    "WINDOW_START": "wc_window_start",
    "WINDOW_END": "wc_window_end",
    "TIMELABEL": "wc_timelabel",
    "IS_PARTIAL": "wc_is_partial",
}


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A part of a spliced query's text, from offset `at` to the next piece.

    If `is_copied`, it is the text of `source` from offset `origin` on; else it replaces the reference at `origin`.
    """

    at: int
    source: SourceText
    origin: int
    is_copied: bool


@dataclass(frozen=True, slots=True)
class SplicedQuery:
    """A query that Spark can run, and the positions of its parts in the user's files.

    The caller passes values to Spark as `args`: for `wc_window_start`, `wc_window_end`, `wc_timelabel`, `wc_is_partial`
    and the names in `variables`.
    """

    text: str
    pieces: tuple[TextPiece, ...]
    variables: tuple[str, ...] = ()

    def place_of(self, line: int, column: int) -> Place:
        """Return the position in the user's file of a position in `text`; both are counted from 1.

        Columns of `text` are counted in UTF-16 units, as in Spark's errors, whose columns start at 0. For a position in
        inserted text, the position of the replaced reference is returned.
        """
        start = 0
        for _ in range(line - 1):
            newline = self.text.find("\n", start)
            if newline < 0:
                break
            start = newline + 1
        offset = min(start + self._characters(start, column - 1), max(len(self.text) - 1, 0))
        piece = self.pieces[max(bisect_right(self.pieces, offset, key=lambda one: one.at) - 1, 0)]
        return piece.source.place(piece.origin + (offset - piece.at if piece.is_copied else 0))

    def _characters(self, start: int, units: int) -> int:
        """Return the number of characters of `text` from `start` on that take `units` units in UTF-16."""
        units = max(units, 0)
        if self.text.isascii():
            return units
        count = 0
        for sign in self.text[start : start + units]:
            units -= 2 if sign > "\uffff" else 1
            if units < 0:
                break
            count += 1
        return count + max(units, 0)


class Replacements(Protocol):
    """Provides the texts that replace references in a query. Each is one line, so that line numbers do not change."""

    def of_read(self, query: Query, reference: TableReference, read: Read | Flat) -> str:
        """Return the SQL that replaces a table in FROM: a name, or a query in brackets."""

    def of_value(self, query: Query, value: ValueReference) -> str:
        """Return the SQL expression that replaces a call such as WINDOW_START() in a query's text."""

    def between(self, query: Query) -> Mapping[int, str]:
        """Map offsets in a query's text to further texts to insert there."""


@dataclass(frozen=True, slots=True)
class _ReplacementsByName:
    name_of: Callable[[Read | Flat], str]

    def of_read(self, query: Query, reference: TableReference, read: Read | Flat) -> str:  # noqa: ARG002
        return self.name_of(read)

    def of_value(self, query: Query, value: ValueReference) -> str:  # noqa: ARG002
        return f":{MARKERS[value.name]}"

    def between(self, query: Query) -> Mapping[int, str]:  # noqa: ARG002
        return {}


def splice(query: Query, name_of: Callable[[Read | Flat], str]) -> SplicedQuery:
    """Return a query with each read replaced by `name_of(read)`, views by their queries, values by Spark parameters.

    `name_of` returns a table's name, or a query in brackets, on one line. An alias is added if the query gives none.
    Raises ValueError for a query with UNION ALL BY NAME, whose branches must be spliced one by one.
    """
    return splice_with(query, _ReplacementsByName(name_of))


def splice_with(query: Query, replacements: Replacements) -> SplicedQuery:
    """Return a query with its references replaced by the texts of `replacements`; otherwise like `splice`."""
    if query.branches:
        raise ValueError("Spark has no UNION ALL BY NAME: splice each of the branches")
    parts: list[str] = []
    pieces: list[TextPiece] = []
    at = 0
    for text, source, origin, is_copied in _splice_pieces(query, replacements):
        if text:
            parts.append(text)
            pieces.append(TextPiece(at, source, origin, is_copied))
            at += len(text)
    return SplicedQuery("".join(parts), tuple(pieces), variables_of(query))


def variables_of(query: Query) -> tuple[str, ...]:
    """Return the names of the variables in a query and its views, sorted."""
    names = {name for branch in query.branches for name in variables_of(branch)} | set(query.variables)
    for reference in query.tables:
        if reference.view is not None:
            names.update(variables_of(reference.view))
    return tuple(sorted(names))


def without_columns(relation: str, columns: Sequence[str]) -> str:
    """Return SQL for `relation` (a table's name, or a query in brackets) without these columns, on one line."""
    return f"(SELECT * EXCEPT ({', '.join(map(quote_name, columns))}) FROM {relation})" if columns else relation


def list_reads(query: Query) -> tuple[Read, ...]:
    """Return the reads of a query, including those inside views and FLAT, each once and in the order written."""
    found: dict[Read, None] = dict.fromkeys(read for branch in query.branches for read in list_reads(branch))
    for reference in query.tables:
        if reference.read is not None:
            found[reference.read] = None
        if reference.flat is not None:
            found.update(dict.fromkeys(reference.flat.included_reads))
        if reference.view is not None:
            found.update(dict.fromkeys(list_reads(reference.view)))
    return tuple(found)


def _splice_pieces(query: Query, replacements: Replacements) -> Iterator[tuple[str, SourceText, int, bool]]:
    source = SourceText(query.place.file, query.text, query.place.line, query.place.column)
    position = 0
    for start, end, what in _edits(query, replacements):
        yield query.text[position:start], source, position, True
        if isinstance(what, TableReference):
            yield from _splice_reference(query, what, source, replacements)
        elif isinstance(what, ValueReference):
            yield replacements.of_value(query, what), source, start, False
        else:
            yield what, source, max(start - 1, 0), False
        position = end
    yield query.text[position:], source, position, True


def _edits(
    query: Query, replacements: Replacements
) -> Iterator[tuple[int, int, TableReference | ValueReference | str]]:
    edits: list[tuple[int, int, int, TableReference | ValueReference | str]] = []
    for reference in query.tables:
        edits.append((reference.start, 0, reference.end, reference))
        if reference.alias is not None:
            edits.append((reference.alias_at, 1, reference.alias_at, f" AS {quote_name(reference.alias)}"))
    edits.extend((value.start, 0, value.end, value) for value in query.values)
    edits.extend((at, 2, at, text) for at, text in (*query.stars, *replacements.between(query).items()))
    for start, _, end, what in sorted(edits, key=lambda edit: edit[:3]):
        yield start, end, what


def _splice_reference(
    query: Query, reference: TableReference, source: SourceText, replacements: Replacements
) -> Iterator[tuple[str, SourceText, int, bool]]:
    at = reference.start
    read = reference.read or reference.flat
    if read is not None:
        relation = without_columns(replacements.of_read(query, reference, read), reference.left_out)
        yield watermark_in(relation) if reference.is_mark else relation, source, at, False
        return
    if reference.view is None:
        raise ValueError(f"the reference at {at} names neither a table nor a view")
    columns = ", ".join(quote_name(column) for column in reference.view_columns)
    yield (f"(SELECT {columns} FROM (" if columns else "("), source, at, False
    yield from _splice_pieces(reference.view, replacements)
    yield ("))" if columns else ")"), source, at, False
