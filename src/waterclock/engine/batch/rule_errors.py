"""Finds the rule that Spark could not evaluate, so that its card leads to where the rule is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.flow.checks import all_rules
from waterclock.flow.declarations import Rule, Table

if TYPE_CHECKING:
    from pyspark.errors import PySparkException


def rule_error(table: Table, raised: BaseException) -> WaterclockError | None:
    """Return the error of a rule that has no answer for some row, such as a division by zero; None for other errors.

    A text that stands in the table's own query as well is taken for the query's.
    """
    from pyspark.errors import PySparkException

    if not isinstance(raised, PySparkException):
        return None
    said = _fragment(raised)
    query = table.query.text if table.query else ""
    rule = next((each for each in all_rules(table) if said and said in each.expression), None)
    if rule is None or said in query:
        return None
    return WaterclockError(
        "E757",
        f"rule {rule.name} of {table.name} has no answer: {said}",
        where=str(rule.place),
        why=_first_line(str(raised)),
        fix=_fix(rule),
    )


def _fragment(raised: PySparkException) -> str:
    """Return the part of an expression that Spark names, empty where it names none."""
    try:
        contexts = raised.getQueryContext()
    except Exception:  # noqa: BLE001 - a guess at a place is never worth an error of its own
        return ""
    found = (context.fragment() for context in contexts if str(context.contextType()).endswith("SQL"))
    return next((text for text in found if text), "")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].partition(" SQLSTATE")[0]


def _fix(rule: Rule) -> str:
    calm = "try_divide" if "/" in rule.expression or "%" in rule.expression else "try_cast"
    return f"let it be NULL where there is no answer, by {calm} or a CASE: what is not TRUE breaks the rule"
