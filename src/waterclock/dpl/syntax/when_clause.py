"""Parses the queries of a TRANSFORM with conditions: `WHEN condition AS query ... ELSE AS query`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot.tokens import Token, TokenType

from waterclock.dpl.syntax.expressions import expression_of
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.statements import Expression, ParsedQuery, ParsedWhen
from waterclock.dpl.syntax.tokens import QUERY_STARTS, check_adjacent_strings
from waterclock.errors import WaterclockError

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_WORDS = frozenset({TokenType.WHEN, TokenType.ELSE})
_HOW = "write WHEN condition AS SELECT ... ELSE AS SELECT ..."


@dataclass(frozen=True, slots=True)
class _Piece:
    """The tokens after a WHEN or ELSE, up to the next. `word` is that WHEN or ELSE, None for the tokens before both."""

    word: Token | None
    tokens: Sequence[Token]


def has_choice(tokens: Sequence[Token]) -> bool:
    """Return whether the tokens after a statement's header contain WHEN or ELSE, outside of brackets and of CASE."""
    return any(True for _ in _find_when_and_else(tokens))


def parse_choices(
    source: SourceText, tokens: Sequence[Token], first: Expression | None, *, name: str
) -> tuple[list[ParsedWhen], ParsedQuery | None, list[WaterclockError]]:
    """Parse the queries after a statement's header; return those with a WHEN, the query of the ELSE, and all errors.

    `first` is the condition of the first query, because the header contains its WHEN; None if it has no condition.
    """
    errors: list[WaterclockError] = []
    whens: list[ParsedWhen] = []
    last: ParsedQuery | None = None
    pieces = list(_split_pieces(tokens))
    if first is None:
        here = _span(source, pieces[0].tokens[:1])
        errors.append(here.refuse("E204", "the first query has no WHEN", fix=_HOW))
    for piece in pieces:
        try:
            if last is not None and piece.word is not None:
                raise _span(source, [piece.word]).refuse(
                    "E204",
                    f"{piece.word.text.upper()} comes after ELSE",
                    why="ELSE and its query come last",
                    fix="move it before ELSE",
                )
            condition, query = _parse_piece(source, piece)
            if piece.word is None:
                condition = first
            if condition is not None:
                whens.append(ParsedWhen(condition, query))
            elif piece.word is not None:
                last = query
        except WaterclockError as error:
            errors.append(error)
    if last is None and not errors:
        errors.append(
            whens[-1].query.span.refuse(
                "E233",
                f"{name} has no query for other labels",
                why="a label for which no WHEN is TRUE would have no rows, without a visible reason",
                fix="add ELSE AS SELECT ... at the end",
            )
        )
    return whens, last, errors


def _parse_piece(source: SourceText, piece: _Piece) -> tuple[Expression | None, ParsedQuery]:
    """Parse a piece to its condition and its query. The condition is None for ELSE and for the first piece."""
    tokens, word = piece.tokens, piece.word
    condition = None
    if word is not None:
        at = _find_query_start(tokens)
        if at is None or (word.token_type is TokenType.ELSE and at > 1):
            what = "AS and a query" if at is None else "AS"
            raise _span(source, [word]).refuse("E204", f"expected {what} after {word.text.upper()}", fix=_HOW)
        if word.token_type is TokenType.WHEN:
            if at == 1:
                raise _span(source, [word]).refuse("E204", "WHEN has no condition", fix=_HOW)
            condition = expression_of(source, tokens[: at - 1], _span(source, tokens[: at - 1]))
        tokens = tokens[at:]
    check_adjacent_strings(source, tokens)
    return condition, ParsedQuery(_span(source, tokens), tokens)


def _find_query_start(tokens: Sequence[Token]) -> int | None:
    depth = 0
    for index, token in enumerate(tokens[:-1]):
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if token.token_type is TokenType.ALIAS and not depth and tokens[index + 1].token_type in QUERY_STARTS:
            return index + 1
    return None


def _split_pieces(tokens: Sequence[Token]) -> Iterator[_Piece]:
    word, start = None, 0
    for cut in _find_when_and_else(tokens):
        yield _Piece(word, tokens[start:cut])
        word, start = tokens[cut], cut + 1
    yield _Piece(word, tokens[start:])


def _find_when_and_else(tokens: Sequence[Token]) -> Iterator[int]:
    depth = cases = 0
    for index, token in enumerate(tokens):
        kind = token.token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        is_part = index > 0 and tokens[index - 1].token_type is TokenType.DOT
        if depth or is_part:
            continue
        if kind is TokenType.CASE:
            cases += 1
        elif kind is TokenType.END and cases:
            cases -= 1
        elif kind in _WORDS and not cases and index:
            yield index


def _span(source: SourceText, tokens: Sequence[Token]) -> Span:
    return source.span(tokens[0].start, tokens[-1].end + 1)
