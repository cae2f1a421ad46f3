"""Conditions on the rows of forms, evaluated on stored texts as Spark evaluates them on the collected values.

A condition compares columns with literals or with attributes of a person. Comparisons are combined by AND, OR and NOT
with the three values of SQL: a comparison with NULL is unknown, and a row matches only if the condition is true. Rules
also compare the length of a text, and match texts with patterns. A condition is bound to the fields of a form and to
the attributes of a person before it is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waterclock.flow.forms import FormField

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_NOT_STORABLE = re.compile("[\\0\ud800-\udfff]")  # no database has such a text
_MOST_DIGITS = 38  # of a number in Spark


class Operator(StrEnum):
    """The operator of a comparison. IN is EQUAL with several operands."""

    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="

    @property
    def mirrored(self) -> Operator:
        """The operator with the sides exchanged: `1 < a` is `a > 1`."""
        mirrored = str(self).translate(str.maketrans("<>", "><"))
        return self if self is Operator.UNEQUAL else Operator(mirrored)


class ValueKind(Enum):
    """The way in which the stored texts of a column are compared."""

    TEXT = auto()
    NUMBER = auto()
    LENGTH = auto()  # of a text, in characters
    DATE = auto()
    BOOLEAN = auto()


@dataclass(frozen=True, slots=True)
class Attribute:
    """The attribute of a person as an operand: `USER('land')`."""

    name: str


Operand = str | bool | Decimal | date | Attribute


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column, or of the length of its text, with an operand; with one of several for EQUAL."""

    column: str
    operator: Operator
    operands: tuple[Operand, ...]
    is_of_length: bool = False


@dataclass(frozen=True, slots=True)
class TextMatch:
    """The condition that a pattern is found in the text of a column. `pattern` is in the syntax of RE2."""

    column: str
    pattern: str


@dataclass(frozen=True, slots=True)
class NullTest:
    """The condition that a column has no value."""

    column: str


@dataclass(frozen=True, slots=True)
class Negation:
    """The negation of a condition. That of an unknown condition is unknown."""

    of: RowCondition


@dataclass(frozen=True, slots=True)
class Combination:
    """Several conditions, of which all (`is_all`) or one must be true."""

    parts: tuple[RowCondition, ...]
    is_all: bool


RowCondition = Comparison | NullTest | TextMatch | Negation | Combination

Matcher = Callable[[str, str], bool]
"""Returns whether a pattern in the syntax of RE2 is found in a text. Raises ValueError for an invalid pattern."""


@dataclass(frozen=True, slots=True)
class BoundComparison:
    """A comparison of the stored text of a field with texts in their stored form. None is an unknown operand."""

    column: str
    kind: ValueKind
    operator: Operator
    values: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class BoundMatch:
    """The condition that a pattern is found in the stored text of a field."""

    column: str
    pattern: str
    matches: Matcher


@dataclass(frozen=True, slots=True)
class BoundNegation:
    """The negation of a bound condition."""

    of: BoundCondition


@dataclass(frozen=True, slots=True)
class BoundCombination:
    """Several bound conditions, of which all (`is_all`) or one must be true."""

    parts: tuple[BoundCondition, ...]
    is_all: bool


BoundCondition = BoundComparison | NullTest | BoundMatch | BoundNegation | BoundCombination


def kind_of_type(type_text: str) -> ValueKind | None:
    """Return how values of a field's type are compared; None for a type whose values are only tested for NULL.

    FLOAT and DOUBLE are rounded differently, and the zone of a TIMESTAMP is that of a session.
    """
    if type_text == "STRING":
        return ValueKind.TEXT
    if type_text in {"TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT"} or type_text.startswith("DECIMAL"):
        return ValueKind.NUMBER
    return {"DATE": ValueKind.DATE, "BOOLEAN": ValueKind.BOOLEAN}.get(type_text)


def attributes_of(condition: RowCondition) -> frozenset[str]:
    """Return the names of the attributes that a condition needs."""
    if isinstance(condition, Comparison):
        return frozenset(each.name for each in condition.operands if isinstance(each, Attribute))
    if isinstance(condition, Negation):
        return attributes_of(condition.of)
    parts = condition.parts if isinstance(condition, Combination) else ()
    return frozenset[str]().union(*map(attributes_of, parts))


def columns_of(condition: RowCondition) -> tuple[str, ...]:
    """Return the columns that a condition names, as they are written, each once."""
    if isinstance(condition, Comparison | NullTest | TextMatch):
        return (condition.column,)
    parts = (condition.of,) if isinstance(condition, Negation) else condition.parts
    return tuple({name.lower(): name for part in parts for name in columns_of(part)}.values())


def patterns_of(condition: RowCondition) -> tuple[str, ...]:
    """Return the patterns of a condition."""
    if isinstance(condition, TextMatch):
        return (condition.pattern,)
    if isinstance(condition, Comparison | NullTest):
        return ()
    parts = (condition.of,) if isinstance(condition, Negation) else condition.parts
    return tuple(pattern for part in parts for pattern in patterns_of(part))


def find_unsuitable(condition: RowCondition, fields: Mapping[str, FormField]) -> Iterator[tuple[str, str]]:
    """Yield why a condition cannot be evaluated for a form, each with a fix. `fields` are keyed by names in lower case.

    These are columns that the form does not have, types that are not compared, and literals of another type.
    """
    if isinstance(condition, Negation):
        yield from find_unsuitable(condition.of, fields)
    elif isinstance(condition, Combination):
        for part in condition.parts:
            yield from find_unsuitable(part, fields)
    else:
        field = fields.get(condition.column.lower())
        if field is None:
            yield f"{condition.column} is not a column that people edit", "name a column of the form"
        elif isinstance(condition, Comparison):
            yield from _unsuitable_operands(condition, field)
        elif isinstance(condition, TextMatch) and field.type != "STRING":
            yield f"{field.name} is {field.type}, and patterns are for texts", f"compare {field.name} with values"


def _kind_of(condition: Comparison, field: FormField) -> ValueKind | None:
    kind = kind_of_type(field.type)
    if not condition.is_of_length:
        return kind
    return ValueKind.LENGTH if kind is ValueKind.TEXT else None


def _unsuitable_operands(condition: Comparison, field: FormField) -> Iterator[tuple[str, str]]:
    kind = _kind_of(condition, field)
    if kind is None:
        yield f"values of {field.name}, {field.type}, are not compared in a form", f"write {field.name} IS NULL"
        return
    wrong = [it for it in condition.operands if not isinstance(it, Attribute) and stored_operand(kind, it) is None]
    if wrong:
        example = {
            ValueKind.TEXT: "a text, as in 'A'",
            ValueKind.NUMBER: "a number, as in 12.5",
            ValueKind.LENGTH: "a number, as in 12",
            ValueKind.DATE: "a date, as in DATE '2026-11-30'",
            ValueKind.BOOLEAN: "TRUE or FALSE",
        }[kind]
        yield f"{field.name} is {field.type}, and {wrong[0]} is not", f"compare it with {example}"


def bind_condition(
    condition: RowCondition,
    fields: Mapping[str, FormField],
    attributes: Mapping[str, object],
    matches: Matcher | None = None,
) -> BoundCondition | None:
    """Bind a condition to the fields of a form and the attributes of a person. `matches` finds its patterns.

    None if the person does not have one of the attributes. An attribute of another type than the column makes its
    comparison unknown. `find_unsuitable` yields nothing for the condition, which the caller has checked.
    """
    if any(name not in attributes for name in attributes_of(condition)):
        return None
    return _bind(condition, fields, attributes, matches)


def _bind(
    condition: RowCondition,
    fields: Mapping[str, FormField],
    attributes: Mapping[str, object],
    matches: Matcher | None,
) -> BoundCondition:
    if isinstance(condition, Negation):
        return BoundNegation(_bind(condition.of, fields, attributes, matches))
    if isinstance(condition, Combination):
        parts = tuple(_bind(each, fields, attributes, matches) for each in condition.parts)
        return BoundCombination(parts, condition.is_all)
    field = fields[condition.column.lower()]
    if isinstance(condition, NullTest):
        return NullTest(field.name)
    if isinstance(condition, TextMatch):
        if matches is None:
            raise AssertionError("only rules have patterns, which parse_row_condition ensures")
        return BoundMatch(field.name, condition.pattern, matches)
    kind = _kind_of(condition, field)
    if kind is None:
        raise AssertionError(f"{field.name} is not compared, which the caller has checked")
    values = tuple(
        stored_operand(kind, attributes[each.name] if isinstance(each, Attribute) else each)
        for each in condition.operands
    )
    return BoundComparison(field.name, kind, condition.operator, values)


def stored_operand(kind: ValueKind, value: object) -> str | None:
    """Return a literal or an attribute in the form in which a column's values are stored; None for another type."""
    if kind is ValueKind.BOOLEAN:
        return str(value).lower() if isinstance(value, bool) else None
    if kind in {ValueKind.NUMBER, ValueKind.LENGTH}:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            return None
        text = format(Decimal(value), "f")
        return text if _NUMBER.fullmatch(text) and sum(map(str.isdigit, text)) <= _MOST_DIGITS else None
    if kind is ValueKind.DATE:
        text = value.isoformat() if type(value) is date else value if isinstance(value, str) else ""
        return text if _is_date(text) else None
    return value if isinstance(value, str) and _NOT_STORABLE.search(value) is None else None


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def comparable(kind: ValueKind, text: str | None) -> str | Decimal | None:
    """Return a stored text as a value to compare; None for no value, or one of a type that the column had before."""
    if text is None or kind is ValueKind.TEXT:
        return text
    if kind is ValueKind.LENGTH:
        return Decimal(len(text))
    if kind is ValueKind.NUMBER:
        return Decimal(text) if _NUMBER.fullmatch(text) else None
    is_value = _DATE.fullmatch(text) if kind is ValueKind.DATE else text in {"true", "false"}
    return text if is_value else None


_COMPARE: Mapping[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: lambda a, b: a == b,
    Operator.UNEQUAL: lambda a, b: a != b,
    Operator.LESS: lambda a, b: a < b,
    Operator.AT_MOST: lambda a, b: a <= b,
    Operator.MORE: lambda a, b: a > b,
    Operator.AT_LEAST: lambda a, b: a >= b,
}


def evaluate(condition: BoundCondition, row: Mapping[str, str | None]) -> bool | None:
    """Return the value of a condition for a stored row; None if it is unknown. Texts are compared by code points."""
    if isinstance(condition, NullTest):
        return row.get(condition.column) is None
    if isinstance(condition, BoundNegation):
        value = evaluate(condition.of, row)
        return None if value is None else not value
    if isinstance(condition, BoundCombination):
        return _combine([evaluate(each, row) for each in condition.parts], is_all=condition.is_all)
    if isinstance(condition, BoundMatch):
        text = row.get(condition.column)
        return None if text is None else condition.matches(condition.pattern, text)
    stored = comparable(condition.kind, row.get(condition.column))
    of_operands = ValueKind.NUMBER if condition.kind is ValueKind.LENGTH else condition.kind
    operands = [comparable(of_operands, value) for value in condition.values]
    compare = _COMPARE[condition.operator]
    found = [None if stored is None or each is None else compare(stored, each) for each in operands]
    return _combine(found, is_all=False)


def _combine(values: Sequence[bool | None], *, is_all: bool) -> bool | None:
    if (not is_all) in values:
        return not is_all
    return None if None in values else is_all
