"""Recognizes queries that only select from one FLAT, so that statistics of the FLAT are also those of the result."""

from __future__ import annotations

from sqlglot.tokens import TokenType

from waterclock.dpl.syntax.tokens import dialect
from waterclock.flow.declarations import Flat, Query

_ALIAS = frozenset({TokenType.ALIAS, TokenType.VAR, TokenType.IDENTIFIER, TokenType.SEMICOLON})


def find_single_flat(query: Query) -> Flat | None:
    """Return the FLAT of a query `SELECT ... FROM FLAT(u)` with at most an alias after it; None for other queries.

    The SELECT list may still call functions that change the number of rows, so callers must compare the row counts.
    """
    flats = [each for each in query.tables if each.flat is not None]
    if query.branches or len(query.tables) != 1 or not flats:
        return None
    reference = flats[0]
    words = [(token.token_type, token.start) for token in dialect().tokenize(query.text)]
    before = [word for word, start in words if start < reference.start]
    behind = [word for word, start in words if start >= reference.end]
    is_plain = before[:1] == [TokenType.SELECT] and before.count(TokenType.SELECT) == 1
    is_plain = is_plain and before[-1] is TokenType.FROM and TokenType.DISTINCT not in before
    return reference.flat if is_plain and len(behind) <= 2 and _ALIAS.issuperset(behind) else None
