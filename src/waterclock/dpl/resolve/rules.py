"""Rules settled: their names, and whether they are asked of each row or of the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.builtins import miscalled
from waterclock.dpl.query.determinism import nondeterministic
from waterclock.dpl.query.now_texts import now_texts
from waterclock.dpl.query.references import VALUES
from waterclock.dpl.resolve.literals import with_literals
from waterclock.dpl.syntax.not_yet import not_yet
from waterclock.dpl.syntax.statements import Expression, RuleSaid
from waterclock.errors import WaterclockError
from waterclock.flow.choices import Scope
from waterclock.flow.declarations import Rule


def rule_of(
    said: RuleSaid, variables: Mapping[str, Any], errors: list[WaterclockError], *, in_column: bool = False
) -> Rule | None:
    """Settle a rule; without a name it goes by its own text. None where its expression is refused, and reported."""
    problems = check_expression(said.expression)
    if problems:
        errors.extend(problems)
        return None
    is_of_batch = has_aggregate(said.expression.tree)
    if is_of_batch and in_column:
        errors.append(
            said.expression.span.refuse(
                "E220",
                "a column's rule holds an aggregate",
                why="a rule of a column is asked of each row",
                fix="say it as a clause: EXPECT count(*) > 0",
            )
        )
        return None
    scope = Scope.BATCH if is_of_batch or said.is_over_batch else Scope.ROW
    text = with_literals(said.expression, variables)
    name = said.name or said.expression.text
    return Rule(text, name, scope, said.action, said.expression.span.place, said.expression.variables)


def check_expression(expression: Expression) -> list[WaterclockError]:
    """Refuse what no expression of a header may hold: queries, and functions that answer anew each time."""
    errors: list[WaterclockError] = []
    if expression.tree.find(exp.Query) is not None:
        errors.append(
            expression.span.refuse(
                "E220",
                "an expression in a header asks other tables",
                why="it looks at the rows of its own batch",
                fix="join the other table in the query, and say the rule of the joined column",
            )
        )
    source, tokens = expression.span.source, expression.tokens
    errors.extend(now_texts(expression.tree, source, lambda _: None))
    for index, token in enumerate(tokens):
        upper = token.text.upper()
        error = nondeterministic(source, tokens, index, upper) or miscalled(source, tokens, index, upper)
        if error is not None:
            errors.append(error)
        if upper in VALUES and index + 1 < len(tokens) and tokens[index + 1].text == "(":
            errors.append(
                not_yet(
                    f"{upper}() in a header",
                    source.span(token.start, token.end + 1),
                    fix=f"make it a column of the query: {upper}() AS name",
                )
            )
    return errors


def has_aggregate(tree: exp.Expression) -> bool:
    """Tell whether an aggregate of sqlglot's knowledge stands outside of a window function."""
    return any(
        not isinstance(node.parent, exp.Window | exp.IgnoreNulls | exp.RespectNulls)
        for node in tree.find_all(exp.AggFunc)
    )
