"""Parses the WHERE of a GRANT, or a row rule, into a condition that forms evaluate, from a small part of SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.granted_select import USER
from waterclock.dpl.syntax.expressions import expression_of
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.statements import Expression
from waterclock.dpl.syntax.tokens import dialect
from waterclock.errors import WaterclockError
from waterclock.flow.row_conditions import (
    Attribute,
    Combination,
    Comparison,
    Negation,
    NullTest,
    Operand,
    Operator,
    RowCondition,
    TextMatch,
    attributes_of,
)
from waterclock.flow.text_patterns import translate_like, translate_regex

_OPERATORS: Mapping[type[exp.Expression], Operator] = {
    exp.EQ: Operator.EQUAL,
    exp.NEQ: Operator.UNEQUAL,
    exp.LT: Operator.LESS,
    exp.LTE: Operator.AT_MOST,
    exp.GT: Operator.MORE,
    exp.GTE: Operator.AT_LEAST,
}
_PATTERNS: Mapping[type[exp.Expression], Callable[[str], str | None]] = {
    exp.Like: translate_like,
    exp.RegexpLike: translate_regex,
}
_FIXES: Mapping[type[exp.Expression], str] = {
    exp.NullSafeEQ: "write =, or IS NULL",
    exp.Like: "list the values with IN, or add a column to the form",
    exp.Null: "write IS NULL",
}
_OTHERWISE = "compare a column with values; or add a column to the form for it"


class UnsupportedConditionError(ValueError):
    """A condition has a part that forms do not evaluate: a part of its tree, or words for it."""

    def __init__(self, found: exp.Expression | str, fix: str) -> None:
        super().__init__()
        self._found, self.fix = found, fix

    @property
    def part(self) -> str:
        """The SQL of the part."""
        found = self._found
        return found if isinstance(found, str) else found.sql(dialect="databricks")[:80]


def parse_row_condition(expression: Expression, variables: Mapping[str, Any], *, is_rule: bool = False) -> RowCondition:
    """Return the condition that an expression declares. Raises `UnsupportedConditionError`.

    Accepted are comparisons of a column with literals, variables or USER('name'), BETWEEN, IN, IS NULL, AND, OR, NOT,
    and BOOLEAN columns; in rules also LIKE and RLIKE with patterns without escapes, and the length of a text.
    """
    if "\\" in expression.text:  # texts with escapes are read differently by Spark and by other parsers
        raise UnsupportedConditionError("a backslash", "write texts without escapes")
    return _Parser(variables, is_rule).parse(expression.tree)


@lru_cache(maxsize=1000)
def parse_rule_condition(text: str) -> RowCondition | None:
    """Return the condition of a valid row rule with literals for its variables; None if forms cannot evaluate it."""
    source = SourceText("rule", text)
    tokens = dialect().tokenize(text)
    try:
        condition = parse_row_condition(expression_of(source, tokens, Span(source, 0, len(text))), {}, is_rule=True)
    except (UnsupportedConditionError, WaterclockError):
        return None
    return None if attributes_of(condition) else condition


@dataclass(frozen=True, slots=True)
class _Parser:
    """Parses a condition with the values of variables. Rules may have functions of texts."""

    variables: Mapping[str, Any]
    is_rule: bool

    def parse(self, tree: exp.Expression) -> RowCondition:
        if isinstance(tree, exp.Paren):
            return self.parse(tree.this)
        if isinstance(tree, exp.Not):
            return Negation(self.parse(tree.this))
        if isinstance(tree, exp.And | exp.Or):
            parts = [self.parse(tree.this), self.parse(tree.expression)]
            return Combination(tuple(parts), isinstance(tree, exp.And))
        return self._parse_test(tree)

    def _parse_test(self, tree: exp.Expression) -> RowCondition:
        if isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
            return NullTest(_column(tree.this))
        if isinstance(tree, exp.In) and set(_arguments(tree)) == {"this", "expressions"}:
            return self._compare(tree.this, Operator.EQUAL, *tree.expressions)
        if isinstance(tree, exp.Between) and set(_arguments(tree)) == {"this", "low", "high"}:
            ends = ((Operator.AT_LEAST, tree.args["low"]), (Operator.AT_MOST, tree.args["high"]))
            return Combination(tuple(self._compare(tree.this, each, end) for each, end in ends), is_all=True)
        if isinstance(tree, exp.Column):
            return Comparison(_column(tree), Operator.EQUAL, (True,))
        if self.is_rule and (translate := _PATTERNS.get(type(tree))) is not None:
            return self._match(tree, translate)
        if (operator := _OPERATORS.get(type(tree))) is None:
            raise _unsupported(tree)
        left, right = tree.this, tree.expression
        if not isinstance(left, exp.Column | exp.Length):
            left, right, operator = right, left, operator.mirrored
        if not isinstance(left, exp.Column | exp.Length):
            raise _unsupported(tree)
        return self._compare(left, operator, right)

    def _compare(self, side: exp.Expression, operator: Operator, *others: exp.Expression) -> Comparison:
        is_length = self.is_rule and isinstance(side, exp.Length) and _arguments(side) == ["this"]
        column = _column(side.this if is_length else side)
        return Comparison(column, operator, tuple(_operand(each, self.variables) for each in others), is_length)

    def _match(self, tree: exp.Expression, translate: Callable[[str], str | None]) -> TextMatch:
        is_plain = set(_arguments(tree)) == {"this", "expression"}
        pattern = _operand(tree.expression, self.variables) if is_plain else None
        found = translate(pattern) if isinstance(pattern, str) else None
        if found is None:
            raise _unsupported(tree)
        return TextMatch(_column(tree.this), found)


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
    return UnsupportedConditionError(tree, _FIXES.get(type(tree), _OTHERWISE))
