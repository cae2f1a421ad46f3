"""Parses column lists: names, types, keys, rules and other properties of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.expressions import expression_of
from waterclock.dpl.syntax.key_clause import parse_key_options
from waterclock.dpl.syntax.row_metadata import parse_row_metadata
from waterclock.dpl.syntax.rule_action_clause import parse_otherwise
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import (
    Expression,
    ParsedColumn,
    ParsedColumnList,
    ParsedRetire,
    ParsedRule,
)
from waterclock.dpl.syntax.tokens import Word
from waterclock.dpl.syntax.type_names import parse_type, skip_brackets
from waterclock.dpl.syntax.unsupported import unsupported_error
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column
from waterclock.flow.references import Reference
from waterclock.similar_names import did_you_mean

RULE_WORDS = frozenset(
    "AS KEY NOT EXPECT REFERENCES DEFAULT SUBJECT HIDDEN RETIRE TAGS COMMENT ELSE NULL PRIMARY UNIQUE CHECK".split()
)


def parse_columns(cursor: Cursor) -> ParsedColumnList:
    """Parse a column list in brackets."""
    cursor.need("(", fix="write columns in brackets, as in (id KEY, *)")
    column_list = parse_column_entries(cursor)
    cursor.need(")", fix="separate columns by commas: (id KEY, name STRING, *)")
    return column_list


def parse_column_entries(cursor: Cursor) -> ParsedColumnList:
    """Parse the entries of a column list, without brackets."""
    found: list[ParsedColumn] = []
    while True:
        if cursor.accept("*"):
            if cursor.at("EXCEPT"):
                raise unsupported_error("EXCEPT", cursor.here())
            if cursor.accept(","):
                raise cursor.here().refuse("E204", "a column comes after *", fix="move * to the end")
            return ParsedColumnList(tuple(found), is_open=True)
        found.append(_parse_column(cursor))
        if not cursor.accept(","):
            return ParsedColumnList(tuple(found), is_open=False)


def _parse_column(cursor: Cursor) -> ParsedColumn:
    word = cursor.name("a column")
    span = cursor.span(word)
    parsed = ParsedColumn(span, Column(word.text, span.place))
    _refuse_unclosed_list(cursor)
    if cursor.peek().kind in {"word", "name"} and cursor.peek().upper not in RULE_WORDS:
        column_type = parse_type(cursor, is_stored=True)
        declared = replace(parsed.declared, type=column_type, else_of_type=parse_otherwise(cursor))
        parsed = replace(parsed, declared=declared)
    while cursor.peek().kind == "word" and not cursor.is_done:
        parsed = _parse_property(cursor, parsed)
    if parsed.made_as is not None and parsed.retires is None:
        metadata = parse_row_metadata(parsed.made_as)
        if metadata is not None:
            parsed = replace(parsed, metadata_field=metadata, made_as=None)
    return parsed


def _parse_property(cursor: Cursor, column: ParsedColumn) -> ParsedColumn:
    """Parse one property of a column, and return the column with it. Raises E207 if the column has it already."""
    _refuse_unclosed_list(cursor)
    upper = cursor.peek().upper
    if cursor.at("PRIMARY", "KEY"):
        raise cursor.here().refuse("E209", "PRIMARY KEY is written as KEY", fix=f"write {column.name} KEY")
    if upper in _FIXES:
        raise cursor.here().refuse("E209", f"{upper} is not supported in a column list", fix=_FIXES[upper])
    if upper not in _PROPERTY_PARSERS:
        raise _unknown_word_error(cursor)
    if upper in _HAS_PROPERTY and _HAS_PROPERTY[upper](column):
        word = "NOT NULL" if upper == "NOT" else upper
        raise cursor.here().refuse("E207", f"{word} of {column.name} is written twice", fix="remove one of them")
    return _PROPERTY_PARSERS[upper](cursor, column)


def _with_key(cursor: Cursor, column: ParsedColumn) -> ParsedColumn:
    cursor.take()
    key_options = parse_key_options(cursor)
    key = replace(column.declared, is_key=True, else_of_key=parse_otherwise(cursor))
    return replace(column, key_options=key_options, declared=key)


def _with_not_null(cursor: Cursor, column: ParsedColumn) -> ParsedColumn:
    cursor.take()
    cursor.need("NULL")
    return replace(column, declared=replace(column.declared, is_not_null=True, else_of_null=parse_otherwise(cursor)))


def _with_expect(cursor: Cursor, column: ParsedColumn) -> ParsedColumn:
    cursor.take()
    return replace(column, rules=(*column.rules, _parse_rule(cursor)))


def _with_references(cursor: Cursor, column: ParsedColumn) -> ParsedColumn:
    cursor.take()
    table, span = cursor.table()
    columns = cursor.names("columns") if cursor.at("(") else ()
    role = cursor.name("a role").text if cursor.accept("ROLE") else None
    at = cursor.name("a column of time").text if cursor.accept("AT") else None
    references = Reference(table, columns, role, at, parse_otherwise(cursor))
    return replace(column, references_span=span, declared=replace(column.declared, references=references))


def _with_hidden(cursor: Cursor, column: ParsedColumn) -> ParsedColumn:
    span = cursor.here()
    cursor.take()
    if column.hidden_span is not None:
        raise span.refuse("E319", f"{column.name} has HIDDEN twice", fix="remove one")
    return replace(column, hidden_span=span, declared=replace(column.declared, is_hidden=True))


def _with_subject(cursor: Cursor, column: ParsedColumn) -> ParsedColumn:
    start = cursor.index
    cursor.take()
    name = cursor.plain_name("a subject")
    declared = replace(column.declared, subject=name.text, is_token=cursor.accept("TOKENS"))
    return replace(column, subject_span=cursor.span_since(start), declared=declared)


def _with_tags(cursor: Cursor, column: ParsedColumn) -> ParsedColumn:
    cursor.take()
    return replace(column, declared=replace(column.declared, tags=cursor.names("tags")))


def _with_comment(cursor: Cursor, column: ParsedColumn) -> ParsedColumn:
    cursor.take()
    return replace(column, declared=replace(column.declared, comment=cursor.text("a comment")))


def _with_value(cursor: Cursor, column: ParsedColumn) -> ParsedColumn:
    span = cursor.here()
    cursor.take()
    if not cursor.at("("):
        cursor.raise_unexpected("( after AS", fix="write the expression in brackets: AS (name)")
    return replace(column, made_as_span=span, made_as=parse_bracketed(cursor))


def _with_retire(cursor: Cursor, column: ParsedColumn) -> ParsedColumn:
    start = cursor.index
    cursor.take()
    day = cursor.text("the day on which the column ends")
    return replace(column, retires=ParsedRetire(day, cursor.span_since(start)))


_PROPERTY_PARSERS: Mapping[str, Callable[[Cursor, ParsedColumn], ParsedColumn]] = {
    "KEY": _with_key,
    "NOT": _with_not_null,
    "EXPECT": _with_expect,
    "REFERENCES": _with_references,
    "HIDDEN": _with_hidden,
    "SUBJECT": _with_subject,
    "TAGS": _with_tags,
    "COMMENT": _with_comment,
    "AS": _with_value,
    "RETIRE": _with_retire,
}


_HAS_PROPERTY: Mapping[str, Callable[[ParsedColumn], bool]] = {
    "KEY": lambda column: column.declared.is_key,
    "NOT": lambda column: column.declared.is_not_null,
    "REFERENCES": lambda column: column.declared.references is not None,
    "SUBJECT": lambda column: column.declared.subject is not None,
    "TAGS": lambda column: bool(column.declared.tags),
    "COMMENT": lambda column: column.declared.comment is not None,
    "AS": lambda column: column.made_as is not None,
    "RETIRE": lambda column: column.retires is not None,
}
"""Maps the first word of each property that a column may have only once to a function that tests for it."""


def _refuse_unclosed_list(cursor: Cursor) -> None:
    word = cursor.peek()
    begins_query = cursor.at("AS", "SELECT") or cursor.at("AS", "WITH")
    if begins_query or (word.kind == "word" and word.upper in _AFTER_COLUMN_LIST):
        raise cursor.here().refuse(
            "E204", f"the column list is not closed before {word.text}", fix=f"put ) before {word.text}"
        )


# Words that can follow the closing bracket of a column list, and are neither a type nor a rule of a column.
_AFTER_COLUMN_LIST = frozenset(
    "PARTITIONED REGULAR FROM EVERY SCHEDULE ZONE START BY MERGE APPEND REPLACE TEMPORAL RETAIN".split()
)
_FIXES = {
    "UNIQUE": "write KEY, which means not null and unique",
    "CHECK": "write EXPECT (expression)",
    "DEFAULT": "write coalesce(column, value) in a TRANSFORM",
    "NULL": "leave it out: a column may be null unless it has NOT NULL",
}


def _unknown_word_error(cursor: Cursor) -> WaterclockError:
    word = cursor.peek()
    known = sorted(RULE_WORDS - {"ELSE", "NULL", "PRIMARY", "UNIQUE", "CHECK"})
    return cursor.here().refuse(
        "E205",
        f"unknown word {word.text} in a column",
        why="a column can have KEY, NOT NULL, HIDDEN, SUBJECT, EXPECT (...), REFERENCES, RETIRE, TAGS, COMMENT",
        fix=did_you_mean(word.upper, known, otherwise="put a comma before the next column"),
    )


def _parse_rule(cursor: Cursor) -> ParsedRule:
    if not cursor.at("("):
        cursor.raise_unexpected("( after EXPECT", fix="write a column's rule in brackets: EXPECT (a > 0)")
    expression = parse_bracketed(cursor)
    name = cursor.name("a rule's name").text if cursor.accept("AS") else None
    return ParsedRule(expression, name, is_over_batch=False, otherwise=parse_otherwise(cursor))


def parse_bracketed(cursor: Cursor) -> Expression:
    """Parse an expression in brackets."""
    start = cursor.index
    skip_brackets(cursor)
    inner = [cursor.words[at] for at in range(start + 1, cursor.index - 1)]
    if not inner:
        raise cursor.span_since(start).refuse(
            "E204", "expected an expression between the brackets", fix="write one, as in (amount > 0)"
        )
    span = Span(cursor.source, inner[0].start, inner[-1].end)
    return expression_of(cursor.source, cursor.tokens[inner[0].token : inner[-1].token + 1], span)


def list_column_names(words: Sequence[Word]) -> tuple[str, ...] | None:
    """Return the column names in a column list that has errors, from its words; None for a list that contains `*`."""
    names: list[str] = []
    depth = in_type = 0
    for word, following in pairwise(words):
        if word.kind != "symbol":
            continue
        depth += (word.text in "([{") - (word.text in ")]}")
        in_type += word.text.count("<") - word.text.count(">") if depth == 1 else 0
        if depth == 1 and not in_type and word.text in {"(", ","}:
            if following.text == "*":
                return None
            names.append(following.text)
    return tuple(names)
