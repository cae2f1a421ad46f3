"""Finds values that `key_of` cannot encode, because systems write a value of their type in different ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.type_families import Family, FamilyOf, family_of
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.errors import WaterclockError

_FUNCTION = "key_of"
_WRONG = {
    Family.FLOATING: (
        "a DOUBLE or FLOAT",
        "systems write and round these numbers in different ways",
        "pass a decimal, as in CAST({value} AS DECIMAL(18, 2))",
    ),
    Family.NESTED: (
        "an ARRAY, MAP or STRUCT",
        "it has no single text that all systems agree on",
        "pass single values of it, such as a field of a STRUCT or an element of an ARRAY",
    ),
    Family.VARIANT: (
        "a VARIANT",
        "its type may differ from row to row",
        "pass a value in it, as in variant_get({value}, '$.id', 'STRING')",
    ),
    Family.INTERVAL: (
        "an INTERVAL",
        "systems write intervals in different ways",
        "pass a number of a unit, as in timestampdiff(SECOND, a, b)",
    ),
    Family.TIME: ("a TIME", "Spark cannot pass it to the function", "pass it as a text, as in CAST({value} AS STRING)"),
    Family.COLLATED: (
        "a collated text",
        "texts that compare as equal would have different keys",
        "pass one form of it, as in collate(lower({value}), 'UTF8_BINARY')",
    ),
}


def may_call_key_of(text: str) -> bool:
    """Return whether a text can contain a call of `key_of`. Quick, so that other expressions are not searched."""
    return _FUNCTION in text.lower()


def check_key_types(tree: Any, source: SourceText, column: FamilyOf) -> Iterator[WaterclockError]:
    """Yield an error for each value in a call of `key_of` whose type is certainly one that has no canonical text.

    `column` returns the type family of a column. Subqueries are not searched.
    """
    for call in tree.walk(prune=lambda node: isinstance(node, exp.Query)):
        if not isinstance(call, exp.Anonymous) or call.name.lower() != _FUNCTION or isinstance(call.parent, exp.Dot):
            continue
        for value in call.expressions:
            wrong = _WRONG.get(family_of(value, column) or Family.OTHER)
            span = source.span_of(value) or source.span_of(call)
            if wrong is not None and span is not None:
                what, why, fix = wrong
                yield span.refuse(
                    "E238",
                    f"{_FUNCTION} gets {what}",
                    why=why,
                    fix=fix.format(value=span.text if isinstance(value, exp.Column) else "value"),
                )
