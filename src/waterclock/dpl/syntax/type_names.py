"""Parses names of Spark SQL types in columns, function parameters and results, and casts of queries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot.tokens import Token, TokenType

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.tokens import words_of
from waterclock.errors import WaterclockError
from waterclock.similar_names import did_you_mean

_TYPES = frozenset(
    "BOOLEAN TINYINT BYTE SMALLINT SHORT INT INTEGER BIGINT LONG FLOAT REAL DOUBLE DECIMAL DEC NUMERIC STRING CHAR "
    "CHARACTER VARCHAR BINARY DATE TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ ARRAY MAP STRUCT".split()
)
_PASSED = frozenset({"INTERVAL", "VARIANT", "TIME", "VOID"})  # valid within a query, but not for stored columns
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
_PROPERTY_WORDS = ("KEY", "NOT NULL", "EXPECT", "REFERENCES", "HIDDEN", "TAGS", "COMMENT")
_INTERVAL_WORDS = frozenset("YEAR MONTH DAY HOUR MINUTE SECOND TO".split())
_WITH_LENGTH = frozenset({"CHAR", "CHARACTER", "VARCHAR"})
_CASTS = frozenset({"CAST", "TRY_CAST"})
_TEXTS = frozenset({TokenType.STRING, TokenType.RAW_STRING})


def parse_type(cursor: Cursor, *, is_stored: bool = False) -> str:
    """Parse a Spark SQL type; return its text. `is_stored`: also refuse types that tables cannot store. Raises E219.

    With `is_stored`, also raises E212 for two fields of a STRUCT whose names are equal regardless of case.
    """
    start = cursor.index
    word = cursor.name("a type")
    span = cursor.span(word)
    upper = word.text.upper()
    if upper in _UNSTORED and (is_stored or upper not in _PASSED):
        raise span.refuse("E219", f"a column of type {upper} cannot be stored", fix=f"store it as {_UNSTORED[upper]}")
    if upper not in _TYPES | _PASSED:
        foreign = f"write {_FOREIGN[upper]}, its name in Spark SQL" if upper in _FOREIGN else None
        otherwise = "write a type of Spark SQL, as in STRING, BIGINT, DOUBLE or TIMESTAMP"
        near = did_you_mean(upper, [*_TYPES, *_PROPERTY_WORDS], otherwise=otherwise)
        raise span.refuse("E219", f"unknown type {word.text}", fix=foreign or near)
    if upper == "INTERVAL":
        while cursor.peek().upper in _INTERVAL_WORDS:
            cursor.take()
    elif upper in _EXAMPLES and not cursor.at("<"):
        raise span.refuse("E219", f"{upper} has no inner type", fix=f"write it as in {_EXAMPLES[upper]}")
    elif cursor.at("("):
        skip_brackets(cursor)
        _check_length(cursor.span_since(start), upper)
        _check_decimal(cursor.span_since(start), upper)
    elif cursor.at("<"):
        _parse_inner_types(cursor, upper, is_stored=is_stored)
    elif upper in _WITH_LENGTH:
        raise span.refuse("E219", f"{word.text} needs a length", fix=f"write {word.text}(10), or STRING")
    if is_stored and cursor.at("COLLATE"):
        raise cursor.here().refuse(
            "E219", "a collated column cannot be stored", fix="use COLLATE where strings are compared"
        )
    return " ".join(cursor.span_since(start).text.split())


def _check_length(span: Span, upper: str) -> None:
    """Raise E219 for a type with a number in brackets that Spark does not accept, such as INT(4) or CHAR(0)."""
    text = " ".join(span.text.split())
    digits = _DIGITS.search(span.text)
    if upper in {*_WITH_LENGTH, "DECIMAL", "DEC", "NUMERIC"}:
        if digits is None or (upper in _WITH_LENGTH and (digits[2] or not int(digits[1][:9]))):
            example = f"{upper}(10)" if upper in _WITH_LENGTH else f"{upper}(10,2)"
            raise span.refuse("E219", f"{text} is not a valid type", fix=f"write it as in {example}")
    elif not upper.startswith("TIME"):  # the digits of a second, which later versions of Spark accept
        raise span.refuse("E219", f"{upper} takes no length", fix=f"write {upper}")


def _check_decimal(span: Span, upper: str) -> None:
    """Raise E219 for a DECIMAL with too many digits, or with more decimals than digits."""
    match = _DIGITS.search(span.text) if upper in {"DECIMAL", "DEC", "NUMERIC"} else None
    if match is None:
        return
    digits, behind = (int((text or "0")[:9]) for text in match.groups())  # 9 digits suffice to be out of range
    if not 1 <= digits <= MOST_DIGITS or behind > digits:
        raise span.refuse(
            "E219",
            f"{' '.join(span.text.split())} is not a valid type",
            why=f"a DECIMAL has 1 to {MOST_DIGITS} digits, including those after the decimal point",
            fix=f"write DECIMAL({min(max(digits, behind, 1), MOST_DIGITS)},{min(behind, MOST_DIGITS)})",
        )


MOST_DIGITS = 38
_DIGITS = re.compile(r"\(\s*([0-9]+)\s*(?:,\s*([0-9]+)\s*)?\)$")
_EXAMPLES = {"ARRAY": "ARRAY<STRING>", "MAP": "MAP<STRING, INT>", "STRUCT": "STRUCT<a: INT, b: STRING>"}


def _parse_inner_types(cursor: Cursor, upper: str, *, is_stored: bool) -> None:
    cursor.need("<")
    fields: dict[str, str] = {}
    while True:
        if upper == "STRUCT":
            name, span = cursor.name("a field").text, cursor.span_since(cursor.index - 1)
            if is_stored and fields.setdefault(name.lower(), name) is not name:
                raise equal_fields_error(span, fields[name.lower()], name)
            cursor.accept(":")
        parse_type(cursor, is_stored=is_stored)
        while cursor.accept("NOT", "NULL") or cursor.at("COMMENT"):
            if cursor.accept("COMMENT"):
                cursor.text("a comment")
        if not cursor.accept(","):
            break
    cursor.need(">")


def equal_fields_error(span: Span, first: str, second: str) -> WaterclockError:
    """Build the error for two fields of a stored STRUCT whose names are equal regardless of case."""
    return span.refuse(
        "E212",
        f"the field {first} is listed twice" if first == second else f"{first} and {second} differ by case only",
        why="field names of a STRUCT are unique in a table, regardless of case",
        fix="rename one of them",
    )


def skip_brackets(cursor: Cursor) -> None:
    """Move the cursor from an opening bracket past the closing one. Raises E204 if there is none."""
    opening = cursor.here()
    depth = 0
    while not cursor.is_done:
        word = cursor.take()
        if word.kind == "symbol":
            depth += (word.text in "([{") - (word.text in ")]}")
        if depth == 0:
            return
    raise opening.refuse("E204", "this bracket is never closed", fix="close it with )")


def unknown_cast_types(source: SourceText, tokens: Sequence[Token]) -> Iterator[WaterclockError]:
    """Yield E219 for each type in a CAST, TRY_CAST or `::` of a query that Spark does not know."""
    for index, token in enumerate(tokens):
        # sqlglot makes a cast of a number with a suffix too, such as 1.5D
        is_written = token.token_type is TokenType.DCOLON and source.text[token.start : token.end + 1] == "::"
        begin = index + 1 if is_written else _begin_of_cast_type(tokens, index)
        if begin is None:
            continue
        end = next((at for at in range(begin, len(tokens)) if tokens[at].token_type in _TEXTS), len(tokens))
        inner = tokens[begin:end]
        try:
            parse_type(Cursor(source, words_of(source, inner), inner, {}, first_words={}))
        except WaterclockError as error:
            if error.code == "E219":  # other errors are reported as errors of the query's syntax
                yield error


def _begin_of_cast_type(tokens: Sequence[Token], index: int) -> int | None:
    """Return the index of the type in `CAST(... AS type)`; None if no CAST begins at `index`."""
    if tokens[index].text.upper() not in _CASTS or tokens[index].token_type in (*_TEXTS, TokenType.IDENTIFIER):
        return None
    depth = 0
    for at in range(index + 1, len(tokens)):
        depth += (tokens[at].text in {"(", "["}) - (tokens[at].text in {")", "]"})
        if depth <= 0:
            return None
        if depth == 1 and tokens[at].token_type is TokenType.ALIAS:
            return at + 1
    return None
