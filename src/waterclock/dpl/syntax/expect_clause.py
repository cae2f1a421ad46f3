"""Parses EXPECT: rules with names, scopes, and actions for rows that break them."""

from __future__ import annotations

from waterclock.dpl.syntax.aggregate_calls import has_aggregate
from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.expressions import parse_expression
from waterclock.dpl.syntax.rule_action_clause import parse_otherwise
from waterclock.dpl.syntax.statements import ParsedRule


def parse_rules(cursor: Cursor) -> tuple[ParsedRule, ...]:
    """Parse the rules of EXPECT, separated by commas."""
    rules = [_parse_rule(cursor)]
    while cursor.accept(","):
        rules.append(_parse_rule(cursor))
    return tuple(rules)


def _parse_rule(cursor: Cursor) -> ParsedRule:
    expression = parse_expression(cursor, "a rule", fix="write it as in EXPECT amount > 0")
    name = cursor.name("a rule's name").text if cursor.accept("AS") else None
    is_over_table = cursor.accept("OVER", "TABLE")
    is_over_batch = False
    if not is_over_table and cursor.accept("OVER"):
        cursor.need("BATCH", fix="write OVER BATCH or OVER TABLE")
        is_over_batch = True
    of, of_span = ("", None)
    if cursor.at("OF"):
        if is_over_table or is_over_batch:
            scope = "TABLE" if is_over_table else "BATCH"
            raise cursor.here().refuse(
                "E320",
                f"a rule has both OVER {scope} and OF",
                why="OF checks the rows that a batch reads, OVER the rows that it makes",
                fix=f"leave OVER {scope} out: an aggregate OF a table covers all of its rows that are read",
            )
        cursor.take()
        of, of_span = cursor.table()
    is_of_rows = not (is_over_table or is_over_batch or has_aggregate(expression.tree))
    otherwise = parse_otherwise(cursor, is_of_rows=is_of_rows)
    return ParsedRule(expression, name, is_over_batch, otherwise, is_over_table, of, of_span)
