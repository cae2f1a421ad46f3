"""Rules settled: their names, and whether they are asked of each row or of the batch."""

from __future__ import annotations

from sqlglot import exp

from waterclock.dpl.determinism import nondeterministic
from waterclock.dpl.statements import Expression, RuleSaid
from waterclock.errors import WaterclockError
from waterclock.flow import Rule, Scope


def rule_of(said: RuleSaid, errors: list[WaterclockError], *, in_column: bool = False) -> Rule | None:
    """Settle a rule; without a name it goes by its own text. None where its expression is refused, and reported."""
    problems = check_expression(said.expression)
    if problems:
        errors.extend(problems)
        return None
    has_aggregate = _has_aggregate(said.expression.tree)
    if has_aggregate and in_column:
        errors.append(
            said.expression.span.refuse(
                "E220",
                "a column's rule holds an aggregate",
                why="a rule of a column is asked of each row",
                fix="say it as a clause: EXPECT count(*) > 0",
            )
        )
        return None
    scope = Scope.BATCH if has_aggregate or said.is_over_batch else Scope.ROW
    text = " ".join(said.expression.text.split())
    return Rule(
        said.expression.text, said.name or text, scope, said.action, said.expression.span.place,
        said.expression.variables,
    )  # fmt: skip


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
    tokens = expression.tokens
    for index, token in enumerate(tokens):
        error = nondeterministic(expression.span.source, tokens, index, token.text.upper())
        if error is not None:
            errors.append(error)
    return errors


def _has_aggregate(tree: exp.Expression) -> bool:
    """Tell whether an aggregate of sqlglot's knowledge stands outside of a window function."""
    return any(
        not isinstance(node.parent, exp.Window | exp.IgnoreNulls | exp.RespectNulls)
        for node in tree.find_all(exp.AggFunc)
    )
