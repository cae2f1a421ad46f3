"""Resolves rules that compare a batch with earlier ones, by last_good(), usual() or trend()."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from waterclock.dpl.query.aggregates import grouped_calls
from waterclock.dpl.query.mergeable_aggregates import find_call_end, is_aggregate_text
from waterclock.dpl.syntax.statements import Expression
from waterclock.dpl.syntax.tokens import dialect
from waterclock.errors import WaterclockError
from waterclock.flow.measures import ComparedSource, ComparedValue, MeasureComparison
from waterclock.flow.seasonal_baseline import LEAST_DAYS, MOST_DAYS

if TYPE_CHECKING:
    from sqlglot.tokens import Token

_HISTORY = {"LAST_GOOD": ComparedSource.LAST_GOOD, "USUAL": ComparedSource.USUAL, "TREND": ComparedSource.TREND}
_NOT_COUNTED = re.compile(r"\b(distinct|filter|over|within)\b", re.IGNORECASE)
_STRINGS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)")


def uses_history(expression: Expression) -> bool:
    """Return whether an expression calls last_good(), usual() or trend()."""
    return any(node.name.upper() in _HISTORY for node in expression.tree.find_all(exp.Anonymous))


def find_uncountable_word(text: str) -> str | None:
    """Return the word that prevents an aggregate from being computed while rows are written; None if none does.

    It is DISTINCT, FILTER, OVER or WITHIN, or the name of an aggregate over groups, such as `k_anonymity`.
    """
    if grouped := next(iter(grouped_calls(text)), None):
        return grouped[2]
    found = _NOT_COUNTED.search(_STRINGS.sub("''", text))
    return found.group(1).upper() if found else None


def comparison_of(expression: Expression, text: str, errors: list[WaterclockError]) -> MeasureComparison | None:
    """Split a rule at its aggregates and its calls of last_good(), usual() and trend(); return None if it is invalid.

    `text` is the rule with the values of its variables. E294 is appended to `errors` for a call without an aggregate,
    and for an aggregate that cannot be computed while rows are written.
    """
    pieces, values, end = [], [], 0
    for start, stop, value in _find_values(text):
        problem = value if isinstance(value, str) else _describe_problem(value)
        if problem is not None:
            fix = "write an aggregate: last_good(count(*)), usual(sum(amount), -4.5), trend(sum(amount), 30)"
            errors.append(expression.span.refuse("E294", problem, why=_WHY, fix=fix))
            return None
        if isinstance(value, ComparedValue):
            pieces.append(text[end:start])
            values.append(value)
            end = stop
    return MeasureComparison((*pieces, text[end:]), tuple(values))


_WHY = "values that are compared with earlier batches are computed and stored while each batch is written"


def _describe_problem(value: ComparedValue) -> str | None:
    sign = find_uncountable_word(value.aggregate)
    if sign == "DISTINCT":
        return f"{value.aggregate} cannot be computed while rows are written: approx_count_distinct can"
    return None if sign is None else f"{sign} in {value.aggregate} cannot be computed while rows are written"


def _find_values(text: str) -> Iterator[tuple[int, int, ComparedValue | str]]:
    """Yield start, end and value of each outermost aggregate and last_good(), usual() and trend(); or an error text."""
    tokens = dialect().tokenize(text)
    index = 0
    while index < len(tokens):
        last = find_call_end(tokens, index)
        if last is None:
            index += 1
            continue
        start, stop = tokens[index].start, tokens[last].end + 1
        source = _HISTORY.get(tokens[index].text.upper())
        if source is not None:
            yield start, stop, _parse_history_call(source, text, tokens[index + 1 : last + 1])
        elif is_aggregate_text(text[start:stop]):
            following = tokens[last + 1].text.upper() if last + 1 < len(tokens) else ""
            if following in {"FILTER", "OVER", "WITHIN"}:
                yield start, stop, f"{following} after {text[start:stop]} cannot be computed while rows are written"
            yield start, stop, ComparedValue(ComparedSource.OWN, _collapse_spaces(text[start:stop]))
        else:
            index += 1
            continue
        index = last + 1


def _parse_history_call(source: ComparedSource, text: str, tokens: Sequence[Token]) -> ComparedValue | str:
    """Parse a call of last_good(), usual() or trend() to a value, or to an error text; `tokens` are its brackets."""
    depth, comma = 0, None
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if token.text == "," and depth == 1:
            comma = token
            break
    inside = text[tokens[0].end + 1 : tokens[-1].start]
    aggregate = _collapse_spaces(text[tokens[0].end + 1 : comma.start] if comma else inside)
    if not is_aggregate_text(aggregate):
        return f"{source}({aggregate}) has no aggregate" if aggregate else f"{source}() has no argument"
    more = text[comma.end + 1 : tokens[-1].start].strip() if comma else ""
    if source is ComparedSource.TREND:
        return _parse_trend(aggregate, more)
    if comma is None:
        return ComparedValue(source, aggregate)
    if source is not ComparedSource.USUAL:
        return f"{source}() takes one aggregate and no other argument"
    if not _NUMBER.fullmatch(more.strip("()")):
        return f"usual() takes a number after its aggregate, and {more} is not a number"
    return ComparedValue(source, aggregate, float(more.strip("()")))


def _parse_trend(aggregate: str, days: str) -> ComparedValue | str:
    count = int(days) if re.fullmatch(r"[0-9]{1,3}", days) else 0
    if LEAST_DAYS <= count <= MOST_DAYS:
        return ComparedValue(ComparedSource.TREND, aggregate, days=count)
    return f"trend({aggregate}) needs a second argument, {LEAST_DAYS} to {MOST_DAYS} days" + (
        f", not {days}" if days else ""
    )


def _collapse_spaces(text: str) -> str:
    return " ".join(text.split())
