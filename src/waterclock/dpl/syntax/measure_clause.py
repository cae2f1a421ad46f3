"""What is counted of each batch: MEASURE with aggregates and their names, or PROFILE."""

from __future__ import annotations

from collections.abc import Callable

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.expressions import take_expression
from waterclock.dpl.syntax.not_yet import not_yet
from waterclock.dpl.syntax.statements import MeasureSaid
from waterclock.errors import did_you_mean


def take_measures(cursor: Cursor, is_clause: Callable[[Cursor, int], bool]) -> tuple[MeasureSaid, ...]:
    """Take the measures behind MEASURE, joined by commas.

    Raises  E208 for OFFLINE, which is for later
    """
    measures = [_measure(cursor, is_clause)]
    while cursor.accept(","):
        measures.append(_measure(cursor, is_clause))
    if cursor.at("OFFLINE"):
        raise not_yet("OFFLINE", cursor.here(), fix="leave it out: what can be counted in the write's pass is")
    return tuple(measures)


def _measure(cursor: Cursor, is_clause: Callable[[Cursor, int], bool]) -> MeasureSaid:
    start = cursor.index
    if cursor.at("PROFILE") and cursor.peek(1).text != "(":
        cursor.take()
        return MeasureSaid(None, None, cursor.since(start))
    expression = take_expression(cursor, "an aggregate, as in sum(amount) AS revenue, or PROFILE", is_clause)
    near = did_you_mean(expression.text.upper(), ("PROFILE",))
    cursor.need("AS", fix=near or "name it: MEASURE sum(amount) AS revenue")
    return MeasureSaid(expression, cursor.name("a measure's name").text, cursor.since(start))
