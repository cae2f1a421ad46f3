"""Finds the parts of a query to rewrite so that one Spark query computes many batch windows with LATERAL.

Within LATERAL, Spark does not support a filter by the window on the right side of a left join; it is moved to the
join's condition. Nor does it support the window's time next to aggregates; it is added to the result afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot.tokens import Token, TokenType

from waterclock.dpl.syntax.tokens import dialect
from waterclock.flow.declarations import Query, TableReference, ValueReference

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_SETS = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})
_FROM_THE_LEFT = frozenset({TokenType.LEFT, TokenType.SEMI, TokenType.ANTI})
_ENDS_A_CONDITION = frozenset(
    {TokenType.JOIN, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.UNION}
)
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})


@dataclass(frozen=True, slots=True)
class MultiWindowRewrite:
    """The parts of a query's text to rewrite, by their offsets.

    `joined`: maps each table on the right of a left, semi or anti join to its alias and the offset after the join's ON.
    `columns`: maps each call such as WINDOW_START() that is only a column of the query's result to the column's name.
    """

    joined: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    columns: Mapping[int, str] = field(default_factory=dict)


def window_wise(query: Query, *, is_whole: bool) -> MultiWindowRewrite:
    """Return the parts of a query's text to rewrite; `is_whole` is False for the query of a view.

    Uncertain parts are left out. Spark then refuses the combined query, and a separate query runs for each window.
    """
    tokens = dialect().tokenize(query.text)
    at = {token.start: index for index, token in enumerate(tokens)}
    depths = list(_depths(tokens))
    joined = {
        reference.start: found
        for reference in query.tables
        if reference.read is not None and (found := _match_join(tokens, depths, at, reference)) is not None
    }
    columns = dict(_find_value_columns(tokens, depths, at, query.values)) if is_whole else {}
    return MultiWindowRewrite(joined, columns)


def _depths(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the number of brackets around each token; a bracket counts itself."""
    depth = 0
    for token in tokens:
        depth += token.token_type in _OPENING
        yield depth
        depth -= token.token_type in _CLOSING


def _match_join(
    tokens: Sequence[Token], depths: Sequence[int], at: Mapping[int, int], reference: TableReference
) -> tuple[str, int] | None:
    first = at[reference.start]
    before = [token.token_type for token in tokens[max(first - 3, 0) : first]]
    if not before or before[-1] is not TokenType.JOIN or not _FROM_THE_LEFT & set(_kind_of_join(before)):
        return None
    behind = next((index for index in range(first, len(tokens)) if tokens[index].start >= reference.end), len(tokens))
    if behind < len(tokens) and tokens[behind].token_type is TokenType.ALIAS:
        behind += 1
    name = reference.alias
    if name is None:
        if behind >= len(tokens) or tokens[behind].token_type not in _NAMES:
            return None
        name = tokens[behind].text
        behind += 1
    if behind >= len(tokens) or tokens[behind].token_type is not TokenType.ON:
        return None
    condition = _condition_tokens(tokens, depths, behind)
    if any(kind is TokenType.OR for kind in condition) or _has_star_of(tokens, name):
        return None
    return name, tokens[behind].end + 1


def _kind_of_join(before: Sequence[TokenType]) -> Sequence[TokenType]:
    """Return the types of the tokens before JOIN that determine the join: `LEFT`, `LEFT OUTER`, `LEFT ANTI`, `SEMI`."""
    words = before[:-1]
    return words if words and words[-1] in {TokenType.OUTER, TokenType.SEMI, TokenType.ANTI} else words[-1:]


def _condition_tokens(tokens: Sequence[Token], depths: Sequence[int], on: int) -> Iterator[TokenType]:
    """Yield the types of a join condition's tokens outside of brackets, possibly with some tokens after it."""
    for token, depth in zip(tokens[on + 1 :], depths[on + 1 :], strict=True):
        if depth < depths[on] or (depth == depths[on] and token.token_type in _CLOSING | _ENDS_A_CONDITION):
            return
        if depth == depths[on]:
            yield token.token_type


def _has_star_of(tokens: Sequence[Token], name: str) -> bool:
    """Return whether the query has a `*` that may include the columns of the source `name`."""
    for index, token in enumerate(tokens):
        if token.token_type is not TokenType.STAR or index == 0:
            continue
        before = tokens[index - 1].token_type
        if before is TokenType.DOT and tokens[index - 2].text.lower() != name.lower():
            continue
        is_count = before is TokenType.L_PAREN and tokens[index - 2].text.lower() == "count"
        if not is_count and before not in _NAMES | {TokenType.NUMBER, TokenType.R_PAREN, TokenType.R_BRACKET}:
            return True
    return False


def _find_value_columns(
    tokens: Sequence[Token], depths: Sequence[int], at: Mapping[int, int], values: Sequence[ValueReference]
) -> Iterator[tuple[int, str]]:
    top = [index for index, depth in enumerate(depths) if not depth]
    selects = [index for index in top if tokens[index].token_type is TokenType.SELECT]
    if len(selects) != 1 or any(tokens[index].token_type in _SETS for index in top):
        return
    until = next((index for index in top if index > selects[0] and tokens[index].token_type is TokenType.FROM), None)
    for value in values:
        first = at[value.start]
        if until is None or not selects[0] < first < until or depths[first]:
            continue
        behind = next(index for index in range(first, len(tokens)) if tokens[index].start >= value.end)
        words = [token.token_type for token in tokens[behind : behind + 3]]
        name = tokens[behind + 1].text
        is_alone = sum(token.text.lower() == name.lower() for token in tokens) == 1
        begins = tokens[first - 1].token_type in {TokenType.SELECT, TokenType.COMMA, TokenType.DISTINCT}
        is_named = words[0] is TokenType.ALIAS and words[1] in _NAMES and words[2] in {TokenType.COMMA, TokenType.FROM}
        if begins and is_named and is_alone:
            yield value.start, name
