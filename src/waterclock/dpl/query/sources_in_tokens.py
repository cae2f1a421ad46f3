"""Finds tables in the FROM clauses of a query that are missing in its syntax tree, to refuse the query.

sqlglot ignores some parts of steps after |> without an error, such as a UNION after `|> SELECT a`. Spark would read
tables in these parts unchecked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from waterclock.dpl.query.spark_functions import TABLE_FUNCTIONS
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.errors import WaterclockError

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_NO_NAMES = frozenset(
    {TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES, TokenType.TABLE, TokenType.LATERAL,
     TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER}
)  # fmt: skip
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
_BEFORE_A_TABLE = frozenset({TokenType.L_PAREN, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.ALL})
_WITH_A_FROM = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY"})
"""Functions with a FROM between their arguments, such as `extract(YEAR FROM a)`."""


def check_sources_parsed(source: SourceText, tokens: Sequence[Token], tree: Any) -> WaterclockError | None:
    """Return the error for the first table or function in FROM that the syntax tree does not contain, or None."""
    kept = {start for node in tree.find_all(exp.Table) for start in _starts_of(node)}
    for index in sources_in(tokens):
        token = tokens[index]
        if token.start not in kept:
            span = source.span(token.start, token.end + 1)
            return span.refuse(
                "E210",
                f"the table {span.text} cannot be read at this place",
                why="after |> SELECT, |> SET and |> DROP only a |> may follow; of two |> ORDER BY only the last counts",
                fix="write it as a separate step, as in |> UNION ALL (SELECT ...), or in a WITH before the query",
            )
    return None


def sources_in(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the index of the name or function right after each FROM, and after each TABLE that begins a query."""
    calls: list[str] = []
    for index, token in enumerate(tokens):
        kind = token.token_type
        before = tokens[index - 1] if index else None
        if kind in _OPENING:
            calls.append(before.text.upper() if before is not None and kind is TokenType.L_PAREN else "")
        elif kind in _CLOSING and calls:
            calls.pop()
        elif before is not None and before.token_type is TokenType.DOT:
            continue
        elif kind is TokenType.FROM:
            is_of_call = bool(calls) and calls[-1] in _WITH_A_FROM
            is_distinct = before is not None and before.token_type is TokenType.DISTINCT
            if not is_of_call and not is_distinct:
                yield from _name_behind(tokens, index)
        elif kind is TokenType.TABLE and (before is None or before.token_type in _BEFORE_A_TABLE):
            yield from (at for at in (index + 1,) if at < len(tokens) and tokens[at].token_type in _NAMES)


def _starts_of(node: exp.Table) -> set[int]:
    """Return the offsets of all words of a table's name, or of the function in its place."""
    parts = node.parts if isinstance(node.this, exp.Identifier | exp.Dot) else [node.this]
    return {part.meta["start"] for part in parts if part is not None and "start" in part.meta}


def _name_behind(tokens: Sequence[Token], index: int) -> Iterator[int]:
    at = index + 1
    while at < len(tokens) and tokens[at].token_type is TokenType.L_PAREN:
        at += 1
    if at == len(tokens) or tokens[at].token_type in _NO_NAMES or not _is_word(tokens[at]):
        return
    is_call = at + 1 < len(tokens) and tokens[at + 1].token_type is TokenType.L_PAREN
    if not is_call or tokens[at].text.lower() not in TABLE_FUNCTIONS:
        yield at


def _is_word(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER or token.text[:1].isalnum() or token.text[:1] == "_"
