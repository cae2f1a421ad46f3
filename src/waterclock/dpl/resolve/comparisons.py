"""Resolves rules that compare a batch with earlier ones, by last_good(), usual() or trend()."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

from waterclock.dpl.query.aggregates import EXAMPLES, GROUP_AGGREGATES, aggregates_of, grouped_calls
from waterclock.dpl.query.mergeable_aggregates import find_call_end, is_aggregate_text
from waterclock.dpl.syntax.statements import Expression
from waterclock.dpl.syntax.tokens import dialect
from waterclock.errors import WaterclockError
from waterclock.flow.measures import ComparedSource, ComparedValue, MeasureComparison
from waterclock.flow.seasonal_baseline import LEAST_DAYS, MOST_DAYS

if TYPE_CHECKING:
    from sqlglot.tokens import Token

_HISTORY = {"LAST_GOOD": ComparedSource.LAST_GOOD, "USUAL": ComparedSource.USUAL, "TREND": ComparedSource.TREND}
# FILTER, OVER and WITHIN follow the call that they change: elsewhere they are the function filter(), or a column's name
_NOT_COUNTED = re.compile(
    r"\b(distinct)\b|\)\s*(?:(?:ignore|respect)\s+nulls\s*)?(filter|over|within)\b", re.IGNORECASE
)
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
    return (found.group(1) or found.group(2)).upper() if found else None


def comparison_of(expression: Expression, text: str, errors: list[WaterclockError]) -> MeasureComparison | None:
    """Split a rule at its aggregates and its calls of last_good(), usual() and trend(); return None if it is invalid.

    `text` is the rule with the values of its variables. E294 is appended to `errors` for a call without an aggregate,
    and for an aggregate that cannot be computed while rows are written.
    """
    pieces, values, end = [], [], 0
    for start, stop, value in _find_values(text):
        problem = value if isinstance(value, _Problem) else _unsupported_aggregate(value.aggregate)
        if problem is not None:
            errors.append(expression.span.refuse("E294", problem.what, why=problem.why, fix=problem.fix))
            return None
        if isinstance(value, ComparedValue):
            pieces.append(text[end:start])
            values.append(value)
            end = stop
    return MeasureComparison((*pieces, text[end:]), tuple(values))


class _Problem(NamedTuple):
    """What is wrong with a comparison, why, and how to fix it."""

    what: str
    why: str
    fix: str


_WHILE_WRITTEN = "values that are compared with earlier batches are computed and stored while each batch is written"
_OF_AGGREGATE = "only values of aggregates are stored with each batch"
_ONE_ARGUMENT = "it returns the value in the newest visible label before this one"
_SPREADS = "usual(aggregate, -4.5) is 4.5 spreads below the usual value"
_DAYS = "trend() divides the current level by the level that many days earlier"
_COUNT_DISTINCT = re.compile(r"count\s*\(\s*distinct\s+([^,]+)\)", re.IGNORECASE)


def _unsupported_aggregate(aggregate: str, place: str = "a rule that compares batches") -> _Problem | None:
    """Return the problem of an aggregate that cannot be computed while rows are written, else None."""
    word = find_uncountable_word(aggregate)
    if word is None:
        return None
    if word in GROUP_AGGREGATES:
        what = f"{word}() cannot be compared with earlier batches"
        return _Problem(what, _WHILE_WRITTEN, f"compare it with a number: EXPECT {EXAMPLES[word]}")
    counted = _COUNT_DISTINCT.fullmatch(aggregate) if word == "DISTINCT" else None
    if counted is not None:
        fix = f"write approx_count_distinct({counted[1]})"
    elif word == "DISTINCT":
        fix = "leave DISTINCT out"
    elif word == "FILTER":
        fix = "write count_if(condition), or an aggregate of CASE WHEN condition THEN value END"
    elif word == "WITHIN":
        fix = "write approx_percentile(column, 0.5)"
    else:
        fix = "make the window function a column of the query, and write an aggregate of that column"
    return _Problem(f"{word} is not supported in {place}", _WHILE_WRITTEN, fix)


def _find_values(text: str) -> Iterator[tuple[int, int, ComparedValue | _Problem]]:
    """Yield start, end and value of each outermost aggregate and last_good(), usual() and trend(); or a problem."""
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
            if (problem := _unsupported_aggregate(f") {following}")) is not None:
                yield start, stop, problem
            yield start, stop, ComparedValue(ComparedSource.OWN, _collapse_spaces(text[start:stop]))
        else:
            index += 1
            continue
        index = last + 1


def _parse_history_call(source: ComparedSource, text: str, tokens: Sequence[Token]) -> ComparedValue | _Problem:
    """Parse a call of last_good(), usual() or trend() to a value, or to a problem; `tokens` are its brackets."""
    depth, comma = 0, None
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if token.text == "," and depth == 1:
            comma = token
            break
    inside = text[tokens[0].end + 1 : tokens[-1].start]
    aggregate = _collapse_spaces(text[tokens[0].end + 1 : comma.start] if comma else inside)
    if (problem := _unsupported_aggregate(aggregate, f"{source}()")) is not None:
        return problem
    if not is_aggregate_text(aggregate):
        return _missing_aggregate(source, aggregate)
    more = text[comma.end + 1 : tokens[-1].start].strip() if comma else ""
    if source is ComparedSource.TREND:
        return _parse_trend(aggregate, more)
    return ComparedValue(source, aggregate) if comma is None else _parse_second_argument(source, aggregate, more)


def _parse_second_argument(source: ComparedSource, aggregate: str, more: str) -> ComparedValue | _Problem:
    if source is not ComparedSource.USUAL:
        return _Problem(f"{source}() has only one argument", _ONE_ARGUMENT, f"write {source}({aggregate})")
    if not _NUMBER.fullmatch(more.strip("()")):
        what = f"the second argument of usual() must be a number, not {more}"
        return _Problem(what, _SPREADS, f"write a number, as in usual({aggregate}, -4.5), or leave it out")
    return ComparedValue(source, aggregate, float(more.strip("()")))


def _missing_aggregate(source: ComparedSource, argument: str) -> _Problem:
    days = ", 30" if source is ComparedSource.TREND else ""
    if not argument:
        return _Problem(f"{source}() has no argument", _OF_AGGREGATE, f"write {source}(count(*){days})")
    if aggregates := aggregates_of(argument):
        fix = f"calculate outside of it: write {source}({aggregates[0]}{days}) in the expression"
        return _Problem(f"{argument} is not a single aggregate", _OF_AGGREGATE, fix)
    return _Problem(
        f"{argument} is not an aggregate", _OF_AGGREGATE, f"write one, as in {source}(sum({argument}){days})"
    )


def _parse_trend(aggregate: str, days: str) -> ComparedValue | _Problem:
    count = int(days) if re.fullmatch(r"[0-9]{1,3}", days) else 0
    if LEAST_DAYS <= count <= MOST_DAYS:
        return ComparedValue(ComparedSource.TREND, aggregate, days=count)
    what = f"trend({aggregate}) needs a second argument, {LEAST_DAYS} to {MOST_DAYS} days"
    return _Problem(what + (f", not {days}" if days else ""), _DAYS, f"write trend({aggregate}, 30)")


def _collapse_spaces(text: str) -> str:
    return " ".join(text.split())
