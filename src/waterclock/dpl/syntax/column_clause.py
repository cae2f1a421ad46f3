"""Parses column lists: names, types, keys, rules and other properties of columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.expressions import expression_of
from waterclock.dpl.syntax.key_clause import take_stays
from waterclock.dpl.syntax.ladder_clause import take_otherwise
from waterclock.dpl.syntax.not_yet import not_yet
from waterclock.dpl.syntax.row_metadata import parse_row_metadata
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import (
    ColumnSaid,
    ColumnsSaid,
    Expression,
    RetireSaid,
    RuleSaid,
    StaysSaid,
    TellsSaid,
)
from waterclock.dpl.syntax.tokens import Word
from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow.ladders import Ladder
from waterclock.flow.references import Reference

RULE_WORDS = frozenset(
    "AS KEY NOT EXPECT REFERENCES DEFAULT SUBJECT HIDDEN RETIRE TAGS COMMENT ELSE NULL PRIMARY UNIQUE CHECK".split()
)
_TYPES = frozenset(
    "BOOLEAN TINYINT BYTE SMALLINT SHORT INT INTEGER BIGINT LONG FLOAT REAL DOUBLE DECIMAL DEC NUMERIC STRING CHAR "
    "CHARACTER VARCHAR BINARY DATE TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ ARRAY MAP STRUCT".split()
)
_PASSED = frozenset({"INTERVAL", "VARIANT"})  # types of parameters and results of functions, which no column has
_UNSTORED = {
    "VARIANT": "STRING", "VOID": "STRING", "NULL": "STRING", "TIME": "TIMESTAMP_NTZ",
    "INTERVAL": "BIGINT, a number of its unit",
}  # fmt: skip
_FOREIGN = {
    "TEXT": "STRING", "DATETIME": "TIMESTAMP", "TIMESTAMPTZ": "TIMESTAMP", "JSON": "STRING", "UUID": "STRING",
    "BOOL": "BOOLEAN", "INT64": "BIGINT", "INT8": "BIGINT", "INT4": "INT", "INT32": "INT", "FLOAT64": "DOUBLE",
    "FLOAT8": "DOUBLE", "NUMBER": "DECIMAL(38,0)", "BLOB": "BINARY", "BYTEA": "BINARY", "SERIAL": "INT",
    "NVARCHAR": "STRING", "STR": "STRING", "OBJECT": "STRING", "BIGSERIAL": "BIGINT", "CLOB": "STRING",
}  # fmt: skip
_SAID = ("KEY", "NOT NULL", "EXPECT", "REFERENCES", "HIDDEN", "TAGS", "COMMENT")
_INTERVAL_WORDS = frozenset("YEAR MONTH DAY HOUR MINUTE SECOND TO".split())
_LATER = {
    "DEFAULT": "DEFAULT", "SUBJECT": "SUBJECT",
}  # fmt: skip


@dataclass(slots=True)
class _Draft:
    name: str
    span: Span
    type: str | None = None
    is_key: bool = False
    is_not_null: bool = False
    rules: list[RuleSaid] = field(default_factory=list)
    references: Reference | None = None
    references_span: Span | None = None
    comment: str | None = None
    tags: tuple[str, ...] = ()
    else_of_type: Ladder = ()
    else_of_null: Ladder = ()
    else_of_key: Ladder = ()
    made_as: Expression | None = None
    made_as_span: Span | None = None
    retires: RetireSaid | None = None
    stays: StaysSaid | None = None
    tells: TellsSaid | None = None
    hidden_span: Span | None = None

    def build(self) -> ColumnSaid:
        return ColumnSaid(
            self.name, self.span, self.type, self.is_key, self.is_not_null, tuple(self.rules), self.references,
            self.references_span, self.comment, self.tags, self.else_of_type, self.else_of_null, self.else_of_key,
            self.made_as, self.made_as_span, self.retires, self.stays, self.tells, self.hidden_span,
        )  # fmt: skip


def take_columns(cursor: Cursor) -> ColumnsSaid:
    """Take a column list in brackets."""
    cursor.need("(", fix="columns stand in brackets, as in (id KEY, *)")
    said = take_column_entries(cursor)
    cursor.need(")", fix="entries are joined by commas: (id KEY, name STRING, *)")
    return said


def take_column_entries(cursor: Cursor) -> ColumnsSaid:
    """Take the entries of a column list without brackets, as an argument in Python."""
    found: list[ColumnSaid] = []
    while True:
        if cursor.accept("*"):
            if cursor.at("EXCEPT"):
                raise not_yet("EXCEPT", cursor.here())
            if cursor.accept(","):
                raise cursor.here().refuse("E204", "a column stands behind the *", fix="put the * last")
            return ColumnsSaid(tuple(found), is_open=True)
        found.append(_column(cursor))
        if not cursor.accept(","):
            return ColumnsSaid(tuple(found), is_open=False)


def _column(cursor: Cursor) -> ColumnSaid:
    word = cursor.name("a column")
    draft = _Draft(word.text, cursor.span(word))
    _refuse_clause(cursor)
    if cursor.peek().kind in {"word", "name"} and cursor.peek().upper not in RULE_WORDS:
        draft.type = take_type(cursor, is_stored=True)
        draft.else_of_type = take_otherwise(cursor)
    while cursor.peek().kind == "word" and not cursor.is_done:
        _rule(cursor, draft)
    if draft.made_as is not None and draft.retires is None:
        draft.tells = parse_row_metadata(draft.made_as)
        if draft.tells is not None:
            draft.made_as = None
    return draft.build()


def _rule(cursor: Cursor, draft: _Draft) -> None:
    _refuse_clause(cursor)
    upper = cursor.peek().upper
    if upper in _LATER:
        raise not_yet(_LATER[upper], cursor.here())
    if cursor.at("PRIMARY", "KEY"):
        raise cursor.here().refuse("E209", "PRIMARY KEY is said as KEY", fix=f"write {draft.name} KEY")
    if upper in {"UNIQUE", "CHECK", "NULL"}:
        raise cursor.here().refuse("E209", f"{upper} is not said of a column here", fix=_HABITS[upper])
    if cursor.accept("KEY"):
        draft.is_key = True
        draft.stays = take_stays(cursor)
        draft.else_of_key = take_otherwise(cursor)
    elif cursor.accept("NOT"):
        cursor.need("NULL")
        draft.is_not_null = True
        draft.else_of_null = take_otherwise(cursor)
    elif cursor.accept("EXPECT"):
        draft.rules.append(_expect(cursor))
    elif cursor.accept("REFERENCES"):
        _references(cursor, draft)
    elif cursor.at("HIDDEN"):
        _take_hidden(cursor, draft)
    elif cursor.accept("TAGS"):
        draft.tags = cursor.names("tags")
    elif cursor.accept("COMMENT"):
        draft.comment = cursor.text("a comment")
    elif not _take_value_or_retire(cursor, draft):
        raise _unknown(cursor)


def _take_hidden(cursor: Cursor, draft: _Draft) -> None:
    span = cursor.here()
    cursor.take()
    if draft.hidden_span is not None:
        raise span.refuse("E319", f"HIDDEN is said twice of {draft.name}", fix="say it once")
    draft.hidden_span = span


def _take_value_or_retire(cursor: Cursor, draft: _Draft) -> bool:
    """Take the expression that a column is made of, or its RETIRE; return False if neither comes next."""
    start = cursor.index
    if cursor.at("AS"):
        draft.made_as_span = cursor.here()
        cursor.take()
        if not cursor.at("("):
            cursor.raise_unexpected("( behind AS", fix="what a column is made of stands in brackets: AS (name)")
        draft.made_as = take_bracketed(cursor)
        return True
    if cursor.accept("RETIRE"):
        draft.retires = RetireSaid(cursor.text("the day on which the column ends"), cursor.since(start))
        return True
    return False


def _refuse_clause(cursor: Cursor) -> None:
    word = cursor.peek()
    begins_query = cursor.at("AS", "SELECT") or cursor.at("AS", "WITH")
    if begins_query or (word.kind == "word" and word.upper in _BEHIND_COLUMNS):
        raise cursor.here().refuse(
            "E204", f"the column list is not closed before {word.text}", fix=f"put ) before {word.text}"
        )


# Words that can follow the closing bracket of a column list, and are neither a type nor a rule of a column.
_BEHIND_COLUMNS = frozenset(
    "PARTITIONED REGULAR FROM EVERY SCHEDULE ZONE START BY MERGE APPEND REPLACE TEMPORAL RETAIN".split()
)
_HABITS = {
    "UNIQUE": "KEY says not null and unique",
    "CHECK": "say EXPECT (expression)",
    "NULL": "a column may be null unless NOT NULL is said",
}


def _unknown(cursor: Cursor) -> WaterclockError:
    word = cursor.peek()
    known = sorted(RULE_WORDS - {"ELSE", "NULL", "PRIMARY", "UNIQUE", "CHECK"})
    return cursor.here().refuse(
        "E205",
        f"{word.text} says nothing of a column",
        why="of a column can be said: KEY, NOT NULL, HIDDEN, EXPECT (...), REFERENCES, RETIRE, TAGS, COMMENT",
        fix=did_you_mean(word.upper, known, otherwise="put a comma before the next column"),
    )


def _expect(cursor: Cursor) -> RuleSaid:
    if not cursor.at("("):
        cursor.raise_unexpected("( behind EXPECT", fix="in a column list a rule stands in brackets: EXPECT (a > 0)")
    expression = take_bracketed(cursor)
    name = cursor.name("a rule's name").text if cursor.accept("AS") else None
    return RuleSaid(expression, name, is_over_batch=False, otherwise=take_otherwise(cursor))


def take_bracketed(cursor: Cursor) -> Expression:
    """Take an expression in brackets."""
    start = cursor.index
    skip_brackets(cursor)
    inner = [cursor.words[at] for at in range(start + 1, cursor.index - 1)]
    if not inner:
        raise cursor.since(start).refuse(
            "E204", "expected an expression between the brackets", fix="write one, as in (amount > 0)"
        )
    span = Span(cursor.source, inner[0].start, inner[-1].end)
    return expression_of(cursor.source, cursor.tokens[inner[0].token : inner[-1].token + 1], span)


def skip_brackets(cursor: Cursor) -> None:
    """Skip from an opening bracket to the closing one."""
    opening = cursor.here()
    depth = 0
    while not cursor.is_done:
        word = cursor.take()
        if word.kind == "symbol":
            depth += (word.text in "([{") - (word.text in ")]}")
        if depth == 0:
            return
    raise opening.refuse("E204", "this bracket is never closed", fix="close it with )")


def names_listed(words: Sequence[Word]) -> tuple[str, ...] | None:
    """Return the column names in a list that cannot be read in all parts; None of an open list.

    `words` are those from its opening bracket to the one that closes it.
    """
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


def _references(cursor: Cursor, draft: _Draft) -> None:
    table, draft.references_span = cursor.table()
    columns = cursor.names("columns") if cursor.at("(") else ()
    role = cursor.name("a role").text if cursor.accept("ROLE") else None
    at = cursor.name("a column of time").text if cursor.accept("AT") else None
    draft.references = Reference(table, columns, role, at, take_otherwise(cursor))


def take_type(cursor: Cursor, *, is_stored: bool = False) -> str:
    """Take a type of Spark SQL and return it as written.

    Raises  E219 for an unknown type or, where it `is_stored` in a table, for one that cannot be stored
    """
    start = cursor.index
    word = cursor.name("a type")
    span = cursor.span(word)
    upper = word.text.upper()
    if upper in _UNSTORED and (is_stored or upper not in _PASSED):
        raise span.refuse("E219", f"a column of type {upper} cannot be stored", fix=f"keep it as {_UNSTORED[upper]}")
    if upper not in _TYPES | _PASSED:
        foreign = f"in Spark SQL that is {_FOREIGN[upper]}" if upper in _FOREIGN else None
        otherwise = "write a type of Spark SQL, as in STRING, BIGINT, DOUBLE or TIMESTAMP"
        near = did_you_mean(upper, [*_TYPES, *_SAID], otherwise=otherwise)
        raise span.refuse("E219", f"unknown type {word.text}", fix=foreign or near)
    if upper == "INTERVAL":
        while cursor.peek().upper in _INTERVAL_WORDS:
            cursor.take()
    elif cursor.at("("):
        skip_brackets(cursor)
        _refuse_digits(cursor.since(start), upper)
    elif cursor.at("<"):
        _inner_types(cursor, upper, is_stored=is_stored)
    elif upper in {"ARRAY", "MAP", "STRUCT"}:
        raise span.refuse("E219", f"{upper} does not say of what", fix=f"as in {_EXAMPLES[upper]}")
    if is_stored and cursor.at("COLLATE"):
        raise cursor.here().refuse(
            "E219", "a column of collated text cannot be stored", fix="say COLLATE where texts are compared"
        )
    return " ".join(cursor.since(start).text.split())


def _refuse_digits(span: Span, upper: str) -> None:
    """Raise E219 for a DECIMAL with more digits than Spark supports, or with more decimals than digits."""
    said = _DIGITS.search(span.text) if upper in {"DECIMAL", "DEC", "NUMERIC"} else None
    if said is None:
        return
    digits, behind = (int((text or "0")[:9]) for text in said.groups())  # of many digits, more than any type has
    if not 1 <= digits <= MOST_DIGITS or behind > digits:
        raise span.refuse(
            "E219",
            f"there is no {' '.join(span.text.split())}",
            why=f"a DECIMAL has 1 to {MOST_DIGITS} digits, those behind the point among them",
            fix=f"write DECIMAL({min(max(digits, behind, 1), MOST_DIGITS)},{min(behind, MOST_DIGITS)})",
        )


MOST_DIGITS = 38
_DIGITS = re.compile(r"\(\s*([0-9]+)\s*(?:,\s*([0-9]+)\s*)?\)$")
_EXAMPLES = {"ARRAY": "ARRAY<STRING>", "MAP": "MAP<STRING, INT>", "STRUCT": "STRUCT<a: INT, b: STRING>"}


def _inner_types(cursor: Cursor, upper: str, *, is_stored: bool) -> None:
    cursor.need("<")
    while True:
        if upper == "STRUCT":
            cursor.name("a field")
            cursor.accept(":")
        take_type(cursor, is_stored=is_stored)
        while cursor.accept("NOT", "NULL") or cursor.at("COMMENT"):
            if cursor.accept("COMMENT"):
                cursor.text("a comment")
        if not cursor.accept(","):
            break
    cursor.need(">")
