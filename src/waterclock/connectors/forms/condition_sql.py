"""Compiles the conditions of grants on rows of forms into SQL of SQLite and PostgreSQL, for lists and counts.

The verdict for each row is that of `evaluate`, which writing uses: texts are compared by code points, numbers by their
exact value, and a text that is no value of the column's type is unknown. Values are bound parameters. `columns` maps
the name of a field to the SQL of its stored text; in PostgreSQL that has the collation "C".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from waterclock.flow.row_conditions import (
    BoundCombination,
    BoundComparison,
    BoundCondition,
    BoundMatch,
    BoundNegation,
    NullTest,
    Operator,
    ValueKind,
)

_PATTERNS = {
    ValueKind.NUMBER: "'^-?[0-9]+([.][0-9]+)?$'",
    ValueKind.DATE: "'^[0-9]{4}-[0-9]{2}-[0-9]{2}$'",
    ValueKind.BOOLEAN: "'^(true|false)$'",
}
_IF_LESS = {Operator.LESS, Operator.AT_MOST, Operator.UNEQUAL}
_IF_MORE = {Operator.MORE, Operator.AT_LEAST, Operator.UNEQUAL}
_ROUNDING = 1e-9  # of a REAL, and much more than it is
_SQLITE_DATE = "'[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'"


@dataclass(frozen=True, slots=True)
class SqlTerm:
    """A part of a statement with `?` for each of its values."""

    text: str
    values: tuple[object, ...] = ()


TRUE, FALSE, UNKNOWN = SqlTerm("(1 = 1)"), SqlTerm("(1 = 0)"), SqlTerm("(NULL = 1)")


def join_terms(terms: Sequence[SqlTerm], *, is_all: bool) -> SqlTerm:
    """Combine conditions, of which all (`is_all`) or one must be true."""
    if not terms:
        return TRUE if is_all else FALSE
    if len(terms) == 1:
        return terms[0]
    text = (" AND " if is_all else " OR ").join(term.text for term in terms)
    return SqlTerm(f"({text})", tuple(value for term in terms for value in term.values))


def compile_condition(condition: BoundCondition, columns: Mapping[str, str], *, is_server: bool) -> SqlTerm:
    """Return a condition as SQL that is true, false or NULL for a row, where `evaluate` is True, False or None."""
    if isinstance(condition, NullTest):
        return SqlTerm(f"({columns[condition.column]} IS NULL)")
    if isinstance(condition, BoundNegation):
        negated = compile_condition(condition.of, columns, is_server=is_server)
        return SqlTerm(f"(NOT {negated.text})", negated.values)
    if isinstance(condition, BoundCombination):
        parts = [compile_condition(part, columns, is_server=is_server) for part in condition.parts]
        return join_terms(parts, is_all=condition.is_all)
    if isinstance(condition, BoundMatch) or condition.kind is ValueKind.LENGTH:
        raise AssertionError("only rules have functions of texts, and rules are not compiled")
    compare = _compare_on_server if is_server else _compare_in_file
    found = compare(condition, columns[condition.column], [value for value in condition.values if value is not None])
    return join_terms([*found, *([UNKNOWN] if None in condition.values else [])], is_all=False)


def _compare_on_server(condition: BoundComparison, text: str, values: Sequence[str]) -> list[SqlTerm]:
    pattern, cast = _PATTERNS.get(condition.kind), ""
    if pattern is not None:
        cast = "::numeric" if condition.kind is ValueKind.NUMBER else ""
        text = f"(CASE WHEN {text} ~ {pattern} THEN ({text}){cast} END)"
    return _compare_texts(condition.operator, text, values, f"?::text{cast}" if cast else "?")


def _compare_in_file(condition: BoundComparison, text: str, values: Sequence[str]) -> list[SqlTerm]:
    if condition.kind is ValueKind.NUMBER:
        return [_compare_digits(condition.operator, text, Decimal(value)) for value in values]
    if condition.kind is ValueKind.DATE:
        text = f"(CASE WHEN {text} GLOB {_SQLITE_DATE} THEN {text} END)"
    elif condition.kind is ValueKind.BOOLEAN:
        text = f"(CASE WHEN {text} IN ('true', 'false') THEN {text} END)"
    return _compare_texts(condition.operator, text, values, "?")


def _compare_texts(operator: Operator, text: str, values: Sequence[str], place: str) -> list[SqlTerm]:
    if len(values) > 1:  # only EQUAL has several
        return [SqlTerm(f"({text} IN ({', '.join([place] * len(values))}))", tuple(values))]
    return [SqlTerm(f"({text} {operator} {place})", (value,)) for value in values]


def _compare_digits(operator: Operator, text: str, value: Decimal) -> SqlTerm:
    """Compare a text with a number in SQLite, which has no exact decimals.

    Numbers of one sign are compared by the number of digits before the point, these digits, and those after it. Zeros
    that do not count are removed. Most numbers differ by more than the rounding of a REAL, which costs less.
    """
    unsigned = f"(CASE WHEN substr({text}, 1, 1) = '-' THEN substr({text}, 2) ELSE {text} END)"
    point = f"instr({unsigned} || '.', '.')"
    before = f"ltrim(substr({unsigned}, 1, {point} - 1), '0')"
    after = f"rtrim(substr({unsigned}, {point} + 1), '0')"
    sign = f"(CASE WHEN {before} = '' AND {after} = '' THEN 0 WHEN substr({text}, 1, 1) = '-' THEN -1 ELSE 1 END)"
    is_number = (
        f"{unsigned} GLOB '[0-9]*' AND {unsigned} GLOB '*[0-9]' AND {unsigned} NOT GLOB '*[^0-9.]*'"
        f" AND {unsigned} NOT GLOB '*.*.*'"
    )
    whole, _, part = format(value.copy_abs(), "f").partition(".")
    whole, part = whole.lstrip("0"), part.rstrip("0")
    own = (value > 0) - (value < 0)
    digits = operator if own >= 0 else operator.mirrored
    order = f"(length({before}), {before}, {after}) {digits} (?, ?, ?)"
    compared = f"CASE WHEN {sign} <> {own} THEN {sign} {operator} {own} ELSE {order} END"
    near, slack = float(value), abs(float(value)) * _ROUNDING + _ROUNDING
    is_less, is_more = (int(operator in known) for known in (_IF_LESS, _IF_MORE))
    rounded = f"CASE WHEN CAST({text} AS REAL) < ? THEN {is_less} WHEN CAST({text} AS REAL) > ? THEN {is_more}"
    values = (near - slack, near + slack, len(whole), whole, part)
    return SqlTerm(f"(CASE WHEN {is_number} THEN {rounded} ELSE {compared} END END)", values)
