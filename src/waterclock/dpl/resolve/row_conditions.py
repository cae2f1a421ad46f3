"""Parses the WHERE of a GRANT into a condition that forms evaluate without Spark, from a small part of SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.granted_select import USER
from waterclock.dpl.syntax.statements import Expression
from waterclock.flow.row_conditions import (
    Attribute,
    Combination,
    Comparison,
    Negation,
    NullTest,
    Operand,
    Operator,
    RowCondition,
)

_OPERATORS: Mapping[type[exp.Expression], Operator] = {
    exp.EQ: Operator.EQUAL,
    exp.NEQ: Operator.UNEQUAL,
    exp.LT: Operator.LESS,
    exp.LTE: Operator.AT_MOST,
    exp.GT: Operator.MORE,
    exp.GTE: Operator.AT_LEAST,
}
_FIXES: Mapping[type[exp.Expression], str] = {
    exp.Between: "write two comparisons, as in a >= 1 AND a <= 2",
    exp.NullSafeEQ: "write =, or IS NULL",
    exp.Like: "list the values with IN, or add a column to the form",
    exp.Null: "write IS NULL",
}
_OTHERWISE = "compare a column with values; or add a column to the form for it"


class UnsupportedConditionError(ValueError):
    """A condition has a part that forms do not evaluate. `part` is its SQL, `fix` what to write instead."""

    def __init__(self, part: str, fix: str) -> None:
        super().__init__(part)
        self.part, self.fix = part, fix


def parse_row_condition(expression: Expression, variables: Mapping[str, Any]) -> RowCondition:
    """Return the condition that an expression declares. Raises `UnsupportedConditionError`.

    Accepted are comparisons of a column with literals, variables or USER('name'), IN, IS NULL, AND, OR, NOT, and
    BOOLEAN columns.
    """
    if "\\" in expression.text:  # texts with escapes are read differently by Spark and by other parsers
        raise UnsupportedConditionError("a backslash", "write texts without escapes")
    return _parse(expression.tree, variables)


def _parse(tree: exp.Expression, variables: Mapping[str, Any]) -> RowCondition:
    if isinstance(tree, exp.Paren):
        return _parse(tree.this, variables)
    if isinstance(tree, exp.Not):
        return Negation(_parse(tree.this, variables))
    if isinstance(tree, exp.And | exp.Or):
        parts = [_parse(tree.this, variables), _parse(tree.expression, variables)]
        return Combination(tuple(parts), isinstance(tree, exp.And))
    return _parse_test(tree, variables)


def _parse_test(tree: exp.Expression, variables: Mapping[str, Any]) -> RowCondition:
    if isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
        return NullTest(_column(tree.this))
    if isinstance(tree, exp.In) and set(_arguments(tree)) == {"this", "expressions"}:
        operands = tuple(_operand(each, variables) for each in tree.expressions)
        return Comparison(_column(tree.this), Operator.EQUAL, operands)
    if isinstance(tree, exp.Column):
        return Comparison(_column(tree), Operator.EQUAL, (True,))
    operator = _OPERATORS.get(type(tree))
    if operator is None:
        raise _unsupported(tree)
    if isinstance(tree.this, exp.Column):
        return Comparison(_column(tree.this), operator, (_operand(tree.expression, variables),))
    if not isinstance(tree.expression, exp.Column):
        raise _unsupported(tree)
    return Comparison(_column(tree.expression), operator.mirrored, (_operand(tree.this, variables),))


def _column(tree: exp.Expression) -> str:
    if (
        not isinstance(tree, exp.Column)
        or set(_arguments(tree)) != {"this"}
        or not isinstance(tree.this, exp.Identifier)
    ):
        raise _unsupported(tree)
    return tree.name


def _operand(tree: exp.Expression, variables: Mapping[str, Any]) -> Operand:
    make = _MAKERS.get(type(tree))
    found = None if make is None else make(tree)
    if isinstance(tree, exp.Placeholder) and tree.name in variables:
        value = variables[tree.name]
        is_known = isinstance(value, str | bool) or (isinstance(value, date) and not isinstance(value, datetime))
        found = value if is_known else Decimal(value) if isinstance(value, int) else None
    if found is None:
        raise _unsupported(tree)
    return found


def _literal(tree: Any) -> Operand | None:
    if tree.is_string:
        return str(tree.this)
    digits = str(tree.this).replace(".", "", 1)
    return Decimal(str(tree.this)) if digits.isascii() and digits.isdigit() else None


def _negative(tree: Any) -> Operand | None:
    number = _literal(tree.this) if isinstance(tree.this, exp.Literal) else None
    return -number if isinstance(number, Decimal) else None


def _date(tree: Any) -> Operand | None:
    is_date = tree.to.this is exp.DataType.Type.DATE and isinstance(tree.this, exp.Literal) and tree.this.is_string
    try:
        return date.fromisoformat(tree.this.this) if is_date and len(tree.this.this) == len("2026-11-30") else None
    except ValueError:
        return None


def _attribute(tree: Any) -> Operand | None:
    named = tree.expressions[0] if tree.name.upper() == USER and len(tree.expressions) == 1 else None
    return Attribute(named.this) if isinstance(named, exp.Literal) and named.is_string else None


_MAKERS: Mapping[type[exp.Expression], Callable[[Any], Operand | None]] = {
    exp.Literal: _literal,
    exp.Boolean: lambda tree: bool(tree.this),
    exp.Neg: _negative,
    exp.Cast: _date,
    exp.Anonymous: _attribute,
}


def _arguments(tree: exp.Expression) -> list[str]:
    return [name for name, value in tree.args.items() if value not in (None, [], False)]


def _unsupported(tree: exp.Expression) -> UnsupportedConditionError:
    text = tree.sql(dialect="databricks")
    return UnsupportedConditionError(text[:80], _FIXES.get(type(tree), _OTHERWISE))
