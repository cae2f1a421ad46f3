"""Parses a clause by its definition, in a DPL header or as a Python argument."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from waterclock.dpl.syntax.clause_definition import ClauseForm
from waterclock.dpl.syntax.clause_table import BY_WORD, FIRST_WORDS
from waterclock.dpl.syntax.column_clause import parse_column_entries
from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.statements import ParsedQuery, StatementKind
from waterclock.dpl.syntax.tokens import check_adjacent_strings, statements_of, words_of
from waterclock.dpl.syntax.type_names import skip_brackets
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Value

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|:\w+""", re.DOTALL)


def read_clause(word: str, cursor: Cursor, kind: StatementKind | None = None) -> Any:
    """Parse the value of a clause. The cursor is after the clause's word; for BY and MODE it is before it.

    `kind` is the kind of statement; it matters for clauses whose syntax differs between statements.
    Raises the errors of the clause's parser.
    """
    clause = BY_WORD[word]
    read = clause.read if kind is None else clause.reads.get(kind, clause.read)
    if read is None:
        raise ValueError(f"{word} has no parser of its own")
    return read(cursor)


def parse_clause(
    word: str, text: str, source: SourceText, *, variables: Mapping[str, Value], kind: StatementKind | None = None
) -> Any:
    """Parse a whole text as the value of a clause, for a Python argument.

    `word` is the clause's word (`EVERY`, `BY`, `MODE`, `COLUMNS`, `FROM`, `AS`, ...), `source` the text with its
    position. Values that are one string (ZONE, START, SCHEDULE, OWNER, COMMENT) need no quotes.
    """
    clause = BY_WORD[word]
    if clause.form is ClauseForm.TEXT and not _QUOTED.fullmatch(text.strip()):
        if clause.checks_text is not None:
            clause.checks_text(text, source.span(0, max(len(text), 1)))
        return text
    statements, errors = statements_of(source)
    if errors:
        raise errors[0]
    source = statements[0].source if statements else source
    whole = source.span(0, max(len(text), 1))
    if len(statements) > 1:
        raise statements[1].span.refuse("E204", "an argument contains a semicolon", fix="remove it")
    if word == "AS":
        if not statements:
            raise whole.refuse("E233", "the query is empty", fix="write one: SELECT ... FROM ...")
        check_adjacent_strings(source, statements[0].tokens)
        return ParsedQuery(statements[0].span, statements[0].tokens)
    tokens = statements[0].tokens if statements else []
    cursor = Cursor(source, words_of(source, tokens), tokens, variables, first_words=FIRST_WORDS)
    if cursor.is_done and clause.form is not ClauseForm.FLAG:
        raise whole.refuse(
            "E204", f"the value for {word} is empty", fix=f"write a value for {word}, or leave the argument out"
        )
    if word == "COLUMNS" and kind not in clause.reads and not cursor.at("("):
        value: Any = parse_column_entries(cursor)
    else:
        value = read_clause(word, cursor, kind)
    if not cursor.is_done:
        cursor.raise_unexpected(f"nothing after {word}", fix=f"leave {cursor.here().text} out")
    return value


def rule_of_view_error(span: Span) -> WaterclockError:
    """Build the error for an EXPECT in a CREATE VIEW."""
    return span.refuse(
        "E231",
        "a view has no rules",
        why="a view is replaced by its query, and has no batches",
        fix="write TRANSFORM instead of CREATE VIEW",
    )


def skip_clause(cursor: Cursor) -> None:
    """Skip the remainder of a clause, up to the next clause's word outside of brackets."""
    while not cursor.is_done and not cursor.begins_clause():
        if cursor.peek().kind == "symbol" and cursor.peek().text in "([{":
            try:
                skip_brackets(cursor)
            except WaterclockError:
                cursor.index = len(cursor.words)
        else:
            cursor.take()
