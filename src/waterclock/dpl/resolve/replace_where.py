"""Compiles the condition of REPLACE WHERE, which must have the same meaning in Spark and in all databases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from sqlglot import exp

from waterclock.dpl.resolve.literals import with_literals
from waterclock.dpl.syntax.cursor import unknown_variable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Expression
from waterclock.errors import WaterclockError
from waterclock.flow.conditions import Condition, Fixed, Term
from waterclock.flow.declarations import Rule
from waterclock.flow.enums import Action, Scope

RULE = "REPLACE WHERE"
USABLE = "published columns, strings, numbers, TRUE, FALSE, :values; = <> < <= > >= IN BETWEEN IS NULL; AND OR NOT"
_COMPARE = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def overwrite_of(
    expression: Expression, variables: Mapping[str, Any], errors: list[WaterclockError]
) -> Condition | None:
    """Compile the condition for the rows that a publish replaces; return None if it is invalid, which is reported."""
    unknown = [name for name in expression.variables if name not in variables]
    errors.extend(unknown_variable(name, expression.span, variables) for name in unknown)
    if unknown:
        return None
    try:
        term = _OverwriteReader(expression.span, variables).read(expression.tree)
    except WaterclockError as error:
        errors.append(error)
        return None
    return Condition(with_literals(expression, variables), term, "UTC")


def rule_of_overwrite(expression: Expression, where: Condition) -> Rule:
    """Build the rule that all published rows meet REPLACE WHERE, because the next batch replaces no other rows."""
    return Rule(where.text, RULE, Scope.ROW, Action.FAIL, expression.span.place, expression.variables)


@dataclass(frozen=True, slots=True)
class _OverwriteReader:
    """Converts the syntax tree of a condition to terms; `span` is that of the whole condition."""

    span: Span
    variables: Mapping[str, Any]

    def read(self, node: Any) -> Term:  # noqa: PLR0911 - one answer for each sort of node
        if isinstance(node, exp.Paren):
            return self.read(node.this)
        if isinstance(node, exp.And | exp.Or):
            parts = (self.read(node.this), self.read(node.expression))
            return Term("and" if isinstance(node, exp.And) else "or", parts)
        if isinstance(node, exp.Not):
            return Term("not", (self.read(node.this),))
        if op := _COMPARE.get(type(node)):
            return self._read_comparison(op, node.this, node.expression)
        if isinstance(node, exp.Between):
            low = self._read_comparison(">=", node.this, node.args["low"])
            return Term("and", (low, self._read_comparison("<=", node.this, node.args["high"])))
        if isinstance(node, exp.In) and node.expressions:
            return Term("or", tuple(self._read_comparison("=", node.this, each) for each in node.expressions))
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return Term("null", (self._column(node.this),))
        raise self._condition_error(node)

    def _read_comparison(self, op: str, left: Any, right: Any) -> Term:
        if isinstance(right, exp.Column):
            left, right, op = right, left, _TURNED.get(op, op)
        column, value = self._column(left), self._value(right)
        if isinstance(value, str | bool) and op not in {"=", "<>"}:
            why = "strings have another order in each database" if isinstance(value, str) else "they have no order"
            raise self._condition_error(right, why)
        return Term(op, (column, Term("value", value=value)))

    def _column(self, node: Any) -> Term:
        if isinstance(node, exp.Paren):
            return self._column(node.this)
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            return Term("column", value=node.name)
        raise self._condition_error(node)

    def _value(self, node: Any) -> Fixed:
        if isinstance(node, exp.Paren):
            return self._value(node.this)
        found: Any = None
        if isinstance(node, exp.Boolean):
            found = bool(node.this)
        elif isinstance(node, exp.Placeholder):
            found = self.variables[node.name]
        elif isinstance(node, exp.Neg):
            inner = self._value(node.this)
            found = -inner if isinstance(inner, int | Decimal) and not isinstance(inner, bool) else None
        elif isinstance(node, exp.Literal):
            found = node.this if node.is_string else int(node.this) if node.this.isdigit() else Decimal(node.this)
        found = Decimal(repr(found)) if isinstance(found, float) else found
        if found is None or isinstance(found, date):
            raise self._condition_error(node)
        return found  # type: ignore[no-any-return] # a text, a number or a truth

    def _condition_error(self, node: Any, why: str | None = None) -> WaterclockError:
        return self.span.refuse(
            "E830",
            f"{node.sql(dialect='databricks')} cannot choose which rows of a destination are replaced",
            why=why or "Spark and the destination must find the same rows by it",
            fix=f"use only {USABLE}",
        )
