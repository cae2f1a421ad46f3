"""Finds the rule that Spark could not evaluate, so that the error names it and its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.flow.checks import every_rule
from waterclock.flow.declarations import Rule, Table
from waterclock.similar_names import did_you_mean
from waterclock.storage.slices.input_filter import READ_BY

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_OF_RULES = ("last_good", "usual", "trend", "skew", "k_anonymity", "l_diversity")
_ROUTINE = re.compile(r"UNRESOLVED_ROUTINE\] Cannot resolve routine `([^`]*)`")
_CASE = re.compile(
    r'Cannot resolve "CASE WHEN (.*) THEN 0 ELSE \d+ END" due to data type mismatch: .*"BOOLEAN" type, '
    r'however .* has the type "([^"]*)"'
)


def rule_error(table: Table, raised: BaseException) -> WaterclockError | None:
    """Build the error for a rule that fails on a row, such as by a division by zero. None for other errors.

    Also None if the table's query contains the failed expression: the error is then reported as the query's.
    """
    from pyspark.errors import PySparkException

    if not isinstance(raised, PySparkException):
        return None
    if (of_type := _not_boolean_error(table, str(raised))) is not None:
        return of_type
    fragment = _fragment(raised)
    query = table.query.text if table.query else ""
    rule = next((each for each in every_rule(table) if fragment and fragment in each.expression), None)
    if rule is None or fragment in query:
        return None
    if (routine := _ROUTINE.search(str(raised))) is not None:
        return _unknown_function_error(table, rule, routine[1])
    return WaterclockError(
        "E757",
        f"rule {rule.name} of {table.name} could not be evaluated: {fragment}",
        where=str(rule.place),
        why=first_line(str(raised)),
        fix=_suggest_fix(rule, str(raised)),
    )


def _not_boolean_error(table: Table, message: str) -> WaterclockError | None:
    """Build the error for a rule that is not BOOLEAN, such as only a column of numbers. None for other errors."""
    found = _CASE.search(message)
    if found is None:
        return None
    rule = next((each for each in every_rule(table) if _normalize(each.expression) == _normalize(found[1])), None)
    if rule is None:
        return None
    return WaterclockError(
        "E757",
        f"rule {rule.name} of {table.name} is not a condition: {rule.expression} is {found[2]}",
        where=str(rule.place),
        why="a rule must be BOOLEAN",
        fix=f"compare it, as in EXPECT {rule.expression} IS NOT NULL",
    )


def _normalize(expression: str) -> str:
    return re.sub(r"[\s()`\"]", "", expression).lower()


def _unknown_function_error(table: Table, rule: Rule, routine: str) -> WaterclockError:
    return WaterclockError(
        "E757",
        f"rule {rule.name} of {table.name} calls {routine}, which is not a function",
        where=str(rule.place),
        why="neither Spark SQL nor Waterclock has it; rules may also call " + ", ".join(_OF_RULES),
        fix=did_you_mean(routine, _OF_RULES) or "use a function of Spark SQL",
    )


def _fragment(raised: PySparkException) -> str:
    """Return the expression that Spark's error names, or an empty text."""
    try:
        contexts = raised.getQueryContext()
    except Exception:  # noqa: BLE001 - finding a place must not raise an error of its own
        return ""
    found = (context.fragment() for context in contexts if str(context.contextType()).endswith("SQL"))
    return next((text for text in found if text), "")


def first_line(text: str) -> str:
    """Return the first line of Spark's error about a rule, without Spark's advice."""
    # Spark's advice is to turn ANSI mode off, which users cannot and should not do here
    line = text.strip().partition("\n")[0].partition(" SQLSTATE")[0].partition(" If necessary set ")[0]
    return line.replace(f", `{READ_BY}`", "")  # a hidden column is no useful hint


def _suggest_fix(rule: Rule, message: str) -> str:
    if "UNRESOLVED_COLUMN" in message:
        return "name a column that the rows have, or add it to them"
    calm = "try_divide" if "/" in rule.expression or "%" in rule.expression else "try_cast"
    return f"make it NULL where there is no answer, with {calm} or a CASE; a value other than TRUE breaks the rule"
