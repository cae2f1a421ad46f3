"""Defines the aggregates that Waterclock adds to Spark's for rules and measures, and expands them to Spark SQL.

Spark's SQL functions cannot contain aggregates, so each call is replaced by its expansion. To add an aggregate, add an
entry to `_SPARK_EXPANSIONS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from waterclock.dpl.syntax.aggregate_calls import OWN_AGGREGATES
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.tokens import dialect
from waterclock.errors import WaterclockError

# SKEW is the frequency of the most common value divided by the average frequency: 1 if all values are equally common,
# and 1 without rows
_SPARK_EXPANSIONS = {
    "SKEW": "coalesce(get(approx_top_k({0}, 1), 0).count * approx_count_distinct({0}) / count({0}), 1D)",
}
NAMES = frozenset(name.lower() for name in _SPARK_EXPANSIONS)

GROUP_AGGREGATES: Mapping[str, int] = {"k_anonymity": 1, "l_diversity": 2}
"""Maps each aggregate over groups of rows, which only rules can use, to the least number of its arguments.

These aggregates have no expansion, because Spark cannot nest aggregates: `group_measures` computes them.
"""
EXAMPLES = {"k_anonymity": "k_anonymity(zip, age) >= 5", "l_diversity": "l_diversity(diagnosis, zip, age) >= 2"}
"""An example rule for each aggregate in `GROUP_AGGREGATES`."""
_MODIFIERS = frozenset({"FILTER", "OVER", "WITHIN"})  # words after a call that change which rows it aggregates
_FORMS = {"k_anonymity": "k_anonymity(column, ...)", "l_diversity": "l_diversity(sensitive, column, ...)"}


def check_aggregate_call(source: SourceText, tokens: Sequence[Token], index: int, upper: str) -> WaterclockError | None:
    """Return the error if the token at `index` calls an aggregate of Waterclock with invalid arguments; else None."""
    if upper.lower() in GROUP_AGGREGATES and _is_call(tokens, index):
        return _check_grouped_call(source, tokens, index)
    if upper not in _SPARK_EXPANSIONS or not _is_call(tokens, index):
        return None
    closing, commas = _find_arguments(tokens, index + 1)
    if closing > index + 2 and not commas:
        return None
    span = source.span(tokens[index].start, tokens[index].end + 1)
    given = f"{len(commas) + 1} arguments" if commas else "no arguments"
    why, fix = f"its form is {upper.lower()}(column)", f"pass one column: {upper.lower()}(customer_id)"
    return span.refuse("E238", f"{span.text} is called with {given}", why=why, fix=fix)


def _check_grouped_call(source: SourceText, tokens: Sequence[Token], index: int) -> WaterclockError | None:
    name = tokens[index].text.lower()
    closing, commas = _find_arguments(tokens, index + 1)
    span = source.span(tokens[index].start, tokens[index].end + 1)
    count = len(commas) + 1 if closing > index + 2 else 0
    inside = tokens[index + 2 : closing]
    after = tokens[closing + 1].text.upper() if closing + 1 < len(tokens) else ""
    if count < GROUP_AGGREGATES[name]:
        given = f"{count} argument{'s' if count > 1 else ''}" if count else "no arguments"
        what = f"{span.text} is called with {given}"
    elif inside[0].text.upper() == "DISTINCT":
        what = f"{span.text} is called with DISTINCT"
    elif any(_is_aggregate_call(inside, at) for at in range(len(inside))):
        what = f"{span.text} has an aggregate as an argument"
    elif any(each.text == "*" and before.text in {"(", ","} for before, each in pairwise(tokens[index + 1 : closing])):
        what = f"{span.text} is called with *"
    elif after in _MODIFIERS:
        what = f"{span.text} has {after}"
    else:
        return None
    return span.refuse("E238", what, why=f"its form is {_FORMS[name]}", fix=f"name columns: {EXAMPLES[name]}")


def expand_aggregates(text: str) -> str:
    """Return an expression with each call of an aggregate of Waterclock expanded to Spark SQL."""
    if not any(name in text.lower() for name in NAMES):
        return text
    tokens = dialect().tokenize(text)
    for index in reversed(range(len(tokens))):
        words = _SPARK_EXPANSIONS.get(tokens[index].text.upper())
        if words is None or not _is_call(tokens, index):
            continue
        closing, _ = _find_arguments(tokens, index + 1)
        inside = text[tokens[index + 1].end + 1 : tokens[closing].start].strip()
        return expand_aggregates(text[: tokens[index].start] + words.format(inside) + text[tokens[closing].end + 1 :])
    return text


def grouped_calls(text: str) -> Iterator[tuple[int, int, str, list[str]]]:
    """Yield the start, end, name and arguments of each call of an aggregate over groups in an expression."""
    if not any(name in text.lower() for name in GROUP_AGGREGATES):
        return
    tokens = dialect().tokenize(text)
    for index, token in enumerate(tokens):
        if token.text.lower() not in GROUP_AGGREGATES or not _is_call(tokens, index):
            continue
        closing, commas = _find_arguments(tokens, index + 1)
        bounds = [index + 1, *commas, closing]
        arguments = [text[tokens[left].end + 1 : tokens[right].start].strip() for left, right in pairwise(bounds)]
        yield token.start, tokens[closing].end + 1, token.text.lower(), arguments


def aggregates_of(text: str) -> list[str]:
    """Return the distinct texts of an expression's outermost aggregate calls, except calls with FILTER or OVER."""
    tokens, found, behind = dialect().tokenize(text), dict[str, None](), 0
    for index, token in enumerate(tokens):
        if index < behind or not _is_aggregate_call(tokens, index):
            continue
        closing, _ = _find_arguments(tokens, index + 1)
        behind = closing + 1
        follows = tokens[behind].text.upper() if behind < len(tokens) else ""
        if follows not in _MODIFIERS:
            found[text[token.start : tokens[closing].end + 1]] = None
    return list(found)


def _is_aggregate_call(tokens: Sequence[Token], index: int) -> bool:
    follows = index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.L_PAREN
    if not follows or (index and tokens[index - 1].token_type is TokenType.DOT):
        return False
    word = tokens[index].text.upper()
    kind = exp.FUNCTION_BY_NAME.get(word)
    return word.lower() in OWN_AGGREGATES or (kind is not None and issubclass(kind, exp.AggFunc))


def _is_call(tokens: Sequence[Token], index: int) -> bool:
    """Return whether the token at `index` is the name of a called function, without a qualifier."""
    is_name = tokens[index].token_type is TokenType.VAR
    follows = index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.L_PAREN
    return is_name and follows and not (index and tokens[index - 1].token_type is TokenType.DOT)


def _find_arguments(tokens: Sequence[Token], opening: int) -> tuple[int, list[int]]:
    """Return the index of the bracket that closes the one at `opening`, and the indexes of commas between arguments."""
    depth, commas = 0, list[int]()
    for at in range(opening, len(tokens)):
        kind = tokens[at].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth == 0:
            return at, commas
        if depth == 1 and kind is TokenType.COMMA:
            commas.append(at)
    return len(tokens) - 1, commas
