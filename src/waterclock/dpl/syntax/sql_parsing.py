"""Parses SQL with sqlglot, with limits that protect its recursive parser.

The tokens are checked before parsing: brackets, CASE, types in angle brackets and consecutive operators may be nested
100 levels deep, and numbers must be valid for both Spark and Python. Other exceptions that sqlglot raises for some
invalid texts are converted to a ParseError.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType

from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.tokens import parse_tokens
from waterclock.errors import WaterclockError

MOST_NESTED = 100
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
_WITH_ANGLES = frozenset({TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT})
_OPERANDS = frozenset(
    {TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.RAW_STRING, TokenType.COMMA,
     TokenType.STAR, TokenType.NULL, TokenType.TRUE, TokenType.FALSE, *_CLOSING}
)  # fmt: skip


_NUMBER = re.compile(r"(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,3})?")


class ParserBroke(ParseError):
    """Raised if sqlglot's parser raises an exception other than ParseError; that exception is its cause."""


def parse_sql(source: SourceText, tokens: Sequence[Token]) -> list[Any]:
    """Parse tokens to syntax trees, whose nodes have offsets in `source`.

    Raises E220 for an invalid number, E267 for deep nesting, and sqlglot's ParseError for other errors.
    """
    check_nesting(source, tokens)
    for token in tokens:
        if token.token_type is TokenType.NUMBER and not _NUMBER.fullmatch(token.text):
            shown = token.text if len(token.text) <= 40 else f"{token.text[:40]}…"
            span = source.span(token.start, token.end + 1)
            raise span.refuse("E220", f"{shown} is not a number", fix="write it in digits, as in 10, 0.5 or 1e6")
    try:
        return parse_tokens(source, tokens)
    except ParseError:
        raise
    except RecursionError:
        raise deep_nesting_error(source, tokens[0]) from None
    except Exception as error:
        raise ParserBroke(f"the parser fails on it: {type(error).__name__}") from error


def check_nesting(source: SourceText, tokens: Sequence[Token]) -> None:
    """Raise E267 at the first token that is nested more than `MOST_NESTED` levels deep.

    Consecutive operators without an operand between them, such as NOT NOT, count as one level each.
    """
    depth = angles = row = 0
    before: TokenType | None = None
    for token in tokens:
        kind = token.token_type
        if kind in _OPENING:
            depth += 1
        elif kind in _CLOSING:
            depth = max(depth - 1, 0)
        is_angle = (kind is TokenType.LT and before in _WITH_ANGLES) or (kind is TokenType.GT and angles > 0)
        if is_angle:
            angles += 1 if kind is TokenType.LT else -1
        row = 0 if is_angle or kind in _OPERANDS else row + 1
        if depth + angles > MOST_NESTED or row > MOST_NESTED:
            raise deep_nesting_error(source, token)
        before = kind


def deep_nesting_error(source: SourceText, token: Token) -> WaterclockError:
    """Build the error for a text that is nested too deeply."""
    return source.span(token.start, token.end + 1).refuse(
        "E267",
        "this is nested too deeply",
        why=f"the limit is {MOST_NESTED} levels of brackets, CASE and consecutive operators",
        fix="use fewer levels: move parts into WITH, or into a view",
    )
