"""Compiles the conditions of WHEN, and refuses conditions that depend on more than the batch's window."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from typing import Any

from sqlglot import exp

from waterclock.dpl.syntax.cursor import unknown_variable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Expression
from waterclock.errors import WaterclockError
from waterclock.flow.conditions import Condition, Fixed, Term
from waterclock.similar_names import did_you_mean
from waterclock.timelabel.zone import first_instant, parse_instant, resolve_local

_WINDOW = {"WINDOW_START": "window_start", "WINDOW_END": "window_end", "TIMELABEL": "timelabel"}
_LOCAL = {
    exp.Year: "year", exp.Quarter: "quarter", exp.Month: "month", exp.Day: "day", exp.DayOfMonth: "day",
    exp.DayOfYear: "dayofyear", exp.DayOfWeek: "dayofweek", exp.WeekOfYear: "weekofyear", exp.Hour: "hour",
    exp.Minute: "minute",
}  # fmt: skip
_LABEL, _LABEL_OR_BEGIN = re.compile(r"[0-9]{14}"), re.compile(r"[0-9]{1,14}")
_CLOCK = frozenset({"hour", "minute"})
_NAMED = {"WEEKDAY": "weekday"}
_COMPARE = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>"}
_EQUAL = frozenset({"=", "<>", "<=>"})
_COUNTS = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
_WHY = "the query of a label must be known before the label runs, and must never change"
_FUNCTIONS = "date, year, quarter, month, day, dayofyear, dayofweek, weekday, weekofyear, hour, minute"
USABLE = (
    f"WINDOW_START(), WINDOW_END(), TIMELABEL(), :values, literals; {_FUNCTIONS}; + - * %;"
    " = <> < <= > >= <=> IN BETWEEN IS; AND OR NOT"
)


class _Kind(StrEnum):
    INSTANT = "an instant"
    DATE = "a date"
    TEXT = "a string"
    NUMBER = "a number"
    TRUTH = "TRUE or FALSE"
    NULL = "NULL"


@dataclass(frozen=True, slots=True)
class _TypedTerm:
    kind: _Kind
    term: Term

    @property
    def is_written(self) -> bool:
        return self.term.op == "value"


def condition_of(
    expression: Expression, variables: Mapping[str, Any], zone: str, errors: list[WaterclockError]
) -> Condition | None:
    """Compile a condition for the time zone of its table; return None if it is invalid, which is reported."""
    unknown = [name for name in expression.variables if name not in variables]
    errors.extend(unknown_variable(name, expression.span, variables) for name in unknown)
    if unknown:
        return None
    try:
        found = _ConditionReader(expression.span, variables, zone).read(expression.tree)
        if found.kind not in {_Kind.TRUTH, _Kind.NULL}:
            what = f"{expression.span.text} is {found.kind}, not TRUE or FALSE"
            raise _condition_error(expression.span, what, "compare it with a value")
    except WaterclockError as error:
        errors.append(error)
        return None
    return Condition(expression.text, found.term, zone)


@dataclass(frozen=True, slots=True)
class _ConditionReader:
    """Converts the syntax tree of a condition to terms with types; `span` is that of the whole condition."""

    span: Span
    variables: Mapping[str, Any]
    zone: str

    def read(self, node: Any) -> _TypedTerm:  # noqa: PLR0911 - one answer for each sort of node
        if isinstance(node, exp.Paren):
            return self.read(node.this)
        if isinstance(node, exp.Boolean | exp.Literal | exp.Null | exp.Placeholder):
            return self._read_literal(node)
        if isinstance(node, exp.And | exp.Or):
            parts = [self._read_truth(each) for each in (node.this, node.expression)]
            return _TypedTerm(_Kind.TRUTH, Term("and" if isinstance(node, exp.And) else "or", tuple(parts)))
        if isinstance(node, exp.Not):
            return _TypedTerm(_Kind.TRUTH, Term("not", (self._read_truth(node.this),)))
        if op := _COMPARE.get(type(node)):
            return self._read_comparison(op, node.this, node.expression)
        if isinstance(node, exp.Between):
            self._require_parts(node, "this", "low", "high")
            low = self._read_comparison(">=", node.this, node.args["low"])
            high = self._read_comparison("<=", node.this, node.args["high"])
            return _TypedTerm(_Kind.TRUTH, Term("and", (low.term, high.term)))
        if isinstance(node, exp.In):
            return self._read_in(node)
        if isinstance(node, exp.Is):
            return self._read_is(node)
        if op := _COUNTS.get(type(node)):
            return self._read_arithmetic(op, node)
        if isinstance(node, exp.Neg):
            return self._read_negation(node)
        return self._read_call(node)

    def _read_literal(self, node: Any) -> _TypedTerm:
        if isinstance(node, exp.Null):
            return _value(None)
        if isinstance(node, exp.Boolean):
            return _value(bool(node.this))
        if isinstance(node, exp.Placeholder):
            return self._variable(node.name)
        if node.is_string:
            return _value(node.this)
        return _value(int(node.this) if node.this.isdigit() else Decimal(node.this))

    def _variable(self, name: str) -> _TypedTerm:
        value = self.variables[name]
        if isinstance(value, float) and not isfinite(value):
            raise self._refuse(f":{name} is {value}, which cannot be compared", "set it to a finite number")
        if isinstance(value, datetime):
            return _value(value.astimezone(UTC) if value.tzinfo else resolve_local(value, self.zone))
        return _value(value)

    def _read_truth(self, node: Any) -> Term:
        found = self.read(node)
        if found.kind not in {_Kind.TRUTH, _Kind.NULL}:
            raise self._refuse(
                f"{self._find_written_text(node)} is {found.kind}, not TRUE or FALSE", "compare it with a value"
            )
        return found.term

    def _read_comparison(self, op: str, left: Any, right: Any) -> _TypedTerm:
        one, other = self._read_to_one_type(left, right)
        self._check_label(one, other, is_equality=op in _EQUAL)
        if one.kind is _Kind.TRUTH and op not in _EQUAL:
            raise self._refuse(f"TRUE and FALSE are compared by {op}", "use AND, OR and NOT")
        return _TypedTerm(_Kind.TRUTH, Term(op, (one.term, other.term)))

    def _read_in(self, node: Any) -> _TypedTerm:
        self._require_parts(node, "this", "expressions")
        parts = []
        for each in node.expressions:
            one, other = self._read_to_one_type(node.this, each)
            self._check_label(one, other, is_equality=True)
            parts.append(Term("=", (one.term, other.term)))
        if not parts:
            raise self._refuse("IN has no values", "add them, as in month(WINDOW_START()) IN (1, 7)")
        return _TypedTerm(_Kind.TRUTH, Term("or", tuple(parts)))

    def _read_is(self, node: Any) -> _TypedTerm:
        if isinstance(node.expression, exp.Null):
            return _TypedTerm(_Kind.TRUTH, Term("is null", (self.read(node.this).term,)))
        if isinstance(node.expression, exp.Boolean):
            wanted = Term("value", value=bool(node.expression.this))
            return _TypedTerm(_Kind.TRUTH, Term("is", (self._read_truth(node.this), wanted)))
        raise self._part_error(node)

    def _read_arithmetic(self, op: str, node: Any) -> _TypedTerm:
        parts = [self._read_whole_number(each) for each in (node.this, node.expression)]
        if op == "%" and not (parts[1].op == "value" and parts[1].value):
            raise self._refuse(
                f"{self._find_written_text(node)} has a divisor that may be 0", "write the divisor as a number"
            )
        return _TypedTerm(_Kind.NUMBER, Term(op, tuple(parts)))

    def _read_negation(self, node: Any) -> _TypedTerm:
        found = self.read(node.this)
        if found.is_written and isinstance(found.term.value, int | float | Decimal) and found.kind is _Kind.NUMBER:
            return _value(-found.term.value)
        return _TypedTerm(_Kind.NUMBER, Term("negative", (self._read_whole_number(node.this),)))

    def _read_whole_number(self, node: Any) -> Term:
        found = self.read(node)
        if found.kind in {_Kind.INSTANT, _Kind.DATE}:
            what = f"{self._find_written_text(node)} is {found.kind}, which takes no arithmetic"
            raise self._refuse(what, "compute the value yourself and compare it, as in WINDOW_START() < '2024-01-01'")
        is_whole = not found.is_written or isinstance(found.term.value, int | None)
        if found.kind not in {_Kind.NUMBER, _Kind.NULL} or not is_whole:
            raise self._refuse(f"{self._find_written_text(node)} is not a whole number", "use whole numbers")
        return found.term

    def _read_call(self, node: Any) -> _TypedTerm:
        if isinstance(node, exp.Anonymous):
            return self._read_named_call(node)
        if op := _LOCAL.get(type(node)):
            return self._read_date_part(op, node.this)
        if isinstance(node, exp.TsOrDsToDate) and not node.args.get("format"):
            return self._read_cast(node, _Kind.DATE)
        if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast) and not node.args.get("format"):
            to = node.args["to"].this
            if to is exp.DType.DATE:
                return self._read_cast(node, _Kind.DATE)
            if to in {exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ}:
                return self._read_cast(node, _Kind.INSTANT)
            if to is exp.DType.BIGINT and isinstance(node.this, exp.Literal) and not node.this.is_string:  # 2L
                return self._read_literal(node.this)
        raise self._part_error(node)

    def _read_named_call(self, node: Any) -> _TypedTerm:
        upper = str(node.this).upper()
        if upper in _WINDOW and not node.expressions:
            return _TypedTerm(_Kind.TEXT if upper == "TIMELABEL" else _Kind.INSTANT, Term(_WINDOW[upper]))
        if upper in _NAMED and len(node.expressions) == 1:
            return self._read_date_part(_NAMED[upper], node.expressions[0])
        raise self._part_error(node, did_you_mean(upper, [*_WINDOW, *_NAMED]))

    def _read_date_part(self, op: str, node: Any) -> _TypedTerm:
        """Convert a call such as `month(...)`, which returns a part of a date or time; refuse `hour` of a date."""
        inside = node.this if isinstance(node, exp.TsOrDsToDate) and not node.args.get("format") else node
        found = self._to_time(self.read(inside), None, self._find_written_text(inside))
        if found.kind is _Kind.DATE and op in _CLOCK:
            raise self._refuse(f"{op} needs a time of day, and its argument is a date", f"write {op}(WINDOW_START())")
        return _TypedTerm(_Kind.NUMBER, Term(op, (found.term,)))

    def _read_cast(self, node: Any, kind: _Kind) -> _TypedTerm:
        return self._to_time(self.read(node.this), kind, self._find_written_text(node.this))

    def _read_to_one_type(self, left: Any, right: Any) -> tuple[_TypedTerm, _TypedTerm]:
        """Convert two compared values to one type: a string to the other value's type, a date to its first instant."""
        one, other = self.read(left), self.read(right)
        if _Kind.NULL in {one.kind, other.kind} or one.kind is other.kind:
            return one, other
        kinds = {one.kind, other.kind}
        for kind in (_Kind.INSTANT, _Kind.DATE):
            if kind in kinds and kinds <= {_Kind.INSTANT, _Kind.DATE, _Kind.TEXT}:
                return self._to_time(one, kind, self._find_written_text(left)), self._to_time(
                    other, kind, self._find_written_text(right)
                )
        what = f"{self._find_written_text(left)} is {one.kind}, and {self._find_written_text(right)} {other.kind}"
        raise self._refuse(what, "compare values of the same type")

    def _to_time(self, found: _TypedTerm, kind: _Kind | None, text: str) -> _TypedTerm:
        """Convert a value to `kind`, an instant or a date; None accepts both. `text` is its text for error messages."""
        if found.kind is _Kind.NULL:
            return found
        if found.kind is _Kind.TEXT and found.is_written:
            found = self._read_time(str(found.term.value), kind)
        if found.kind not in {_Kind.INSTANT, _Kind.DATE}:
            raise self._refuse(f"{text} is {found.kind}, not a time", "use WINDOW_START(), or a date: '2024-01-01'")
        if kind is _Kind.DATE and found.kind is _Kind.INSTANT:
            return _TypedTerm(kind, Term("date", (found.term,)))
        if kind is _Kind.INSTANT and found.kind is _Kind.DATE:
            if isinstance(found.term.value, date):
                return _value(first_instant(self.zone, found.term.value.toordinal()))
            return _TypedTerm(kind, Term("instant", (found.term,)))
        return found

    def _read_time(self, text: str, kind: _Kind | None) -> _TypedTerm:
        if kind is not _Kind.INSTANT:
            try:
                return _value(date.fromisoformat(text.strip()))
            except ValueError:
                if kind is _Kind.DATE:
                    raise self._refuse(f"'{text}' is not a date", "write one such as '2024-01-01'") from None
        try:
            return _value(parse_instant(text, self.zone))
        except WaterclockError as error:
            raise self._refuse(error.what, error.fix or "") from None

    def _check_label(self, one: _TypedTerm, other: _TypedTerm, *, is_equality: bool) -> None:
        """Refuse comparing TIMELABEL() with a string that is not a label; for < and >, a part of a label is valid."""
        written = {found.term.value for found in (one, other) if found.is_written and found.kind is _Kind.TEXT}
        form = _LABEL if is_equality else _LABEL_OR_BEGIN
        wrong = [text for text in written if not form.fullmatch(str(text))]
        if wrong and "timelabel" in {one.term.op, other.term.op}:
            raise self.span.refuse(
                "E246",
                f"{wrong[0]!r} is not a timelabel",
                why="TIMELABEL() is YYYYMMDDHHmm00 in UTC, and is compared with strings character by character",
                fix="compare a time, as in WINDOW_START() < '2024-02-01', or write a timelabel: '20240201000000'",
            )

    def _require_parts(self, node: Any, *known: str) -> None:
        """Refuse a node that has parts other than `known`, for example an IN with a subquery."""
        if any(value for part, value in node.args.items() if part not in known):
            raise self._part_error(node)

    def _part_error(self, node: Any, near: str | None = None) -> WaterclockError:
        declared, is_all = self._find_written_text(node), self._find_written_text(node) == self.span.text
        what = f"{declared} has a part that cannot choose a query" if is_all else f"{declared} cannot choose a query"
        if isinstance(node, exp.Column):
            what = f"{declared} is a column, and a window has no columns"
        return _condition_error(self.span, what, near or f"use only {USABLE}")

    def _find_written_text(self, node: Any) -> str:
        """Return the text of a node as the user wrote it; the whole condition if sqlglot's text is not part of it."""
        text, own = self.span.text, str(node.sql("databricks"))
        at = text.lower().find(own.lower())
        return text[at : at + len(own)] if at >= 0 else text

    def _refuse(self, what: str, fix: str) -> WaterclockError:
        return _condition_error(self.span, what, fix)


def _condition_error(span: Span, what: str, fix: str) -> WaterclockError:
    return span.refuse("E246", what, why=_WHY, fix=fix)


def _value(value: Fixed) -> _TypedTerm:
    return _TypedTerm(_kind_of(value), Term("value", value=value))


def _kind_of(value: Fixed) -> _Kind:
    kinds: Sequence[tuple[Any, _Kind]] = (
        (bool, _Kind.TRUTH),
        (datetime, _Kind.INSTANT),
        (date, _Kind.DATE),
        (str, _Kind.TEXT),
        (type(None), _Kind.NULL),
    )
    return next((kind for sort, kind in kinds if isinstance(value, sort)), _Kind.NUMBER)
