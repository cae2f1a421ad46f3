"""Splits an expression into aggregates whose partial results can be merged, and the text between them.

For example, `sum(a) / count(*)` is split into two aggregates. The partial results of each are merged, and the division
is computed from the merged results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from waterclock.dpl.syntax.aggregate_calls import is_aggregate
from waterclock.dpl.syntax.tokens import dialect

if TYPE_CHECKING:
    from sqlglot.tokens import Token

_SUMS = frozenset({"count", "count_if", "sum"})
_LEAST = frozenset({"min", "bool_and", "every"})
_GREATEST = frozenset({"max", "bool_or", "any", "some"})
_MEANS = frozenset({"avg", "mean"})
_DIFFERENT = frozenset({"approx_count_distinct"})
_PERCENTILES = frozenset({"approx_percentile", "percentile_approx"})
_MERGEABLE = _SUMS | _LEAST | _GREATEST | _MEANS | _DIFFERENT | _PERCENTILES
_MODIFIERS = frozenset({"DISTINCT", "FILTER", "OVER", "WITHIN"})


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of an aggregate: its lower-case name, and the texts of its arguments."""

    name: str
    arguments: tuple[str, ...]

    @property
    def text(self) -> str:
        """The call in Spark SQL."""
        return f"{self.name}({', '.join(self.arguments)})"

    @property
    def merge_aggregate(self) -> str:
        """The way to merge partial results of the aggregate: sum, min, max, mean, or the sketches hll and kll."""
        kinds = {"sum": _SUMS, "min": _LEAST, "max": _GREATEST, "mean": _MEANS, "hll": _DIFFERENT}
        return next((kind for kind, names in kinds.items() if self.name in names), "kll")


@dataclass(frozen=True, slots=True)
class SplitExpression:
    """An expression split at its aggregates: one of `calls` is between each two of the text `pieces`."""

    pieces: tuple[str, ...]
    calls: tuple[AggregateCall, ...]

    def render(self, of: Callable[[int], str]) -> str:
        """Return the expression with each aggregate replaced by `of(n)`, where n is its index."""
        parts = [self.pieces[0]]
        for at, piece in enumerate(self.pieces[1:]):
            parts += [of(at), piece]
        return "".join(parts)


def split_at_aggregates(text: str) -> SplitExpression | None:
    """Split an expression at its aggregates.

    Return None if it has no aggregates, or one whose values per label cannot be merged to a value for several labels.
    """
    pieces, calls, end = [], [], 0
    for start, stop, call in _find_aggregates(text):
        if call is None:
            return None
        pieces.append(text[end:start])
        calls.append(call)
        end = stop
    found = SplitExpression((*pieces, text[end:]), tuple(calls))
    return found if calls and _has_only_aggregates(found) else None


def _has_only_aggregates(found: SplitExpression) -> bool:
    """Return whether the text around the aggregates contains no columns and no other aggregates."""
    try:
        tree = dialect().parse(f"SELECT {found.render(lambda _: '1')}")[0]
    except (ParseError, TokenError):
        return False
    return tree is not None and tree.find(exp.Column, exp.AggFunc, exp.Star) is None


def _find_aggregates(text: str) -> Iterator[tuple[int, int, AggregateCall | None]]:
    """Yield the start and end of each outermost aggregate, and its call; None instead if it cannot be merged."""
    tokens = dialect().tokenize(text)
    index = 0
    while index < len(tokens):
        last = find_call_end(tokens, index)
        start, stop = tokens[index].start, tokens[last].end + 1 if last is not None else 0
        if last is None or not is_aggregate_text(text[start:stop]):
            index += 1
            continue
        following = tokens[last + 1].text.upper() if last + 1 < len(tokens) else ""
        name, inside = tokens[index].text.lower(), tokens[index + 2 : last]
        is_plain = following not in _MODIFIERS and not (inside and inside[0].text.upper() in _MODIFIERS)
        yield (
            start,
            stop,
            AggregateCall(name, _split_arguments(text, inside)) if is_plain and name in _MERGEABLE else None,
        )
        index = last + 1


def find_call_end(tokens: Sequence[Token], index: int) -> int | None:
    """Return the index of the token that closes the call at `index`; None if there is none."""
    if index + 1 >= len(tokens) or tokens[index + 1].text != "(" or not tokens[index].text.isidentifier():
        return None
    depth = 0
    for at in range(index + 1, len(tokens)):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")")
        if depth == 0:
            return at
    return None


def _split_arguments(text: str, tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the arguments of a call from the tokens between its brackets."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if token.text == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return tuple(text[part[0].start : part[-1].end + 1] for part in parts if part)


def is_aggregate_text(text: str) -> bool:
    """Return whether a text is a single call of an aggregate."""
    try:
        tree = dialect().parse(f"SELECT {text}")[0]
    except (ParseError, TokenError):
        return False
    found = tree.expressions if isinstance(tree, exp.Select) else []
    return len(found) == 1 and is_aggregate(found[0])
