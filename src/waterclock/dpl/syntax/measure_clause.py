"""Parses MEASURE: named aggregates, or PROFILE, that are computed for each batch."""

from __future__ import annotations

from dataclasses import replace

from waterclock.dpl.syntax.cursor import Cursor, parse_at
from waterclock.dpl.syntax.expressions import parse_expression
from waterclock.dpl.syntax.statements import ParsedMeasure
from waterclock.similar_names import did_you_mean
from waterclock.timelabel.period import parse_period


def parse_measures(cursor: Cursor) -> tuple[ParsedMeasure, ...]:
    """Parse the measures of MEASURE; a final OFFLINE applies to all of them. Raises E102 for an invalid period."""
    measures = [_parse_measure(cursor)]
    while cursor.accept(","):
        measures.append(_parse_measure(cursor))
    start = cursor.index
    if not cursor.accept("OFFLINE"):
        return tuple(measures)
    duration = cursor.duration(fix="add a period: OFFLINE 1 DAY")
    span = cursor.span_since(start)
    period = parse_at(span, lambda: parse_period(str(duration)))
    return tuple(replace(measure, offline=period, offline_span=span) for measure in measures)


def _parse_measure(cursor: Cursor) -> ParsedMeasure:
    start = cursor.index
    if cursor.at("PROFILE") and cursor.peek(1).text != "(":
        cursor.take()
        return ParsedMeasure(None, None, cursor.span_since(start))
    expression = parse_expression(
        cursor, "an aggregate, or PROFILE", fix="write it as in MEASURE sum(amount) AS revenue"
    )
    near = did_you_mean(expression.text.upper(), ("PROFILE",))
    cursor.need("AS", fix=near or "name it: MEASURE sum(amount) AS revenue")
    return ParsedMeasure(expression, cursor.name("a measure's name").text, cursor.span_since(start))
