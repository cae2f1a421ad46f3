"""Splits a query at each UNION ALL BY NAME.

Spark's SQL does not have this operator, so the queries run one by one, and their rows are combined by column names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot.tokens import Token, TokenType

from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedQuery
from waterclock.errors import WaterclockError

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_OF_WHOLE = frozenset(
    {TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY, TokenType.LIMIT,
     TokenType.OFFSET, TokenType.FETCH}
)  # fmt: skip
_SETS = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})
_WHY = "Spark runs each of the queries on its own, and their rows are combined by name"


@dataclass(frozen=True, slots=True)
class _Words:
    """The tokens of a UNION ... BY NAME, `first` to `behind` (exclusive), and the number of brackets around them."""

    first: int
    behind: int
    depth: int


def branches_of(query: ParsedQuery) -> tuple[list[ParsedQuery], list[WaterclockError]]:
    """Return the queries that UNION ALL BY NAME combines at a query's top level, and errors; both empty without it."""
    tokens = query.tokens
    cuts = [words for words in _find_unions_by_name(tokens) if not words.depth]
    if not cuts:
        return [], []
    errors = [error for cut in cuts if (error := _distinct_error(query, cut))]
    branches: list[ParsedQuery] = []
    for first, behind in zip([0, *(cut.behind for cut in cuts)], [*(cut.first for cut in cuts), None], strict=True):
        inside = tokens[first:behind]
        if inside:
            span = query.span.source.span(inside[0].start, inside[-1].end + 1)
            branches.append(ParsedQuery(span, inside))
            errors.extend(_check_branch_clauses(branches[-1]))
        else:
            cut = cuts[0] if first == 0 else next(cut for cut in cuts if cut.behind == first)
            errors.append(
                _span(query, cut.first, cut.behind).refuse(
                    "E210",
                    "a query is missing before or after UNION ALL BY NAME",
                    fix="write it, or leave UNION ALL BY NAME out",
                )
            )
    return branches, errors


def check_union_by_name(query: ParsedQuery) -> Iterator[WaterclockError]:
    """Yield an error for each UNION ... BY NAME in a query that must not contain it, such as a view or a subquery."""
    for words in _find_unions_by_name(query.tokens):
        yield _span(query, words.first, words.behind).refuse(
            "E236",
            f"{_format_words(query, words)} is allowed only at the top level of a TRANSFORM",
            why=_WHY,
            fix="move it to another TRANSFORM, and read that",
        )


def _find_unions_by_name(tokens: Sequence[Token]) -> Iterator[_Words]:
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if token.token_type is TokenType.UNION:
            at = index + 1
            if at < len(tokens) and tokens[at].token_type in {TokenType.ALL, TokenType.DISTINCT}:
                at += 1
            if [one.text.upper() for one in tokens[at : at + 2]] == ["BY", "NAME"]:
                yield _Words(index, at + 2, depth)


def _distinct_error(query: ParsedQuery, cut: _Words) -> WaterclockError | None:
    if query.tokens[cut.first + 1].token_type is TokenType.ALL:
        return None
    return _span(query, cut.first, cut.behind).refuse(
        "E236",
        f"{_format_words(query, cut)} removes duplicate rows, which is not supported",
        why="Spark runs each of the queries on its own: duplicates across the queries would not be found",
        fix="write UNION ALL BY NAME, and SELECT DISTINCT where the table is read",
    )


def _check_branch_clauses(branch: ParsedQuery) -> Iterator[WaterclockError]:
    """Yield errors for clauses in one of the combined queries that SQL would apply to all of them, such as ORDER BY."""
    source, tokens = branch.span.source, branch.tokens
    if tokens[0].token_type is TokenType.WITH:
        yield source.span(tokens[0].start, tokens[0].end + 1).refuse(
            "E236",
            "WITH applies to both sides of UNION ALL BY NAME",
            why=_WHY,
            fix="make it a CREATE VIEW, or put it in brackets with the query that needs it: (WITH ... SELECT ...)",
        )
    depth = 0
    for index, token in enumerate(tokens):
        kind = token.token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        is_star = index > 0 and tokens[index - 1].token_type is TokenType.STAR  # SELECT * EXCEPT (a)
        if depth or is_star or kind not in _OF_WHOLE | _SETS:
            continue
        text = " ".join(token.text.upper().split())
        yield source.span(token.start, token.end + 1).refuse(
            "E236",
            f"{text} applies to both sides of UNION ALL BY NAME",
            why=_WHY,
            fix=f"put it in brackets with the query that it belongs to: (SELECT ... {text} ...)",
        )
        return


def _format_words(query: ParsedQuery, words: _Words) -> str:
    return " ".join(token.text.upper() for token in query.tokens[words.first : words.behind])


def _span(query: ParsedQuery, first: int, behind: int) -> Span:
    tokens = query.tokens
    return query.span.source.span(tokens[first].start, tokens[behind - 1].end + 1)
