"""Finds calls of k_anonymity() and l_diversity() in rules, and replaces them by their computed values.

Both group the rows by some columns, count the rows or the distinct values of each group, and return the lowest count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from waterclock.dpl.query.aggregates import grouped_calls

NO_GROUPS = 2**63 - 1
"""The value if there are no rows. No group is too small then, so rules that require a minimum hold."""


@dataclass(frozen=True, slots=True)
class GroupMeasure:
    """The lowest count of any group of rows with equal values of the expressions `columns`; NULLs are equal.

    The distinct values of the expression `sensitive` are counted; if it is empty, the rows. Both are Spark SQL.
    """

    columns: tuple[str, ...]
    sensitive: str = ""


def group_measures_in(texts: Iterable[str]) -> list[GroupMeasure]:
    """Return the distinct measures of groups in some expressions."""
    return list(
        dict.fromkeys(_measure(name, arguments) for text in texts for _, _, name, arguments in grouped_calls(text))
    )


def with_group_values(text: str, values: Mapping[GroupMeasure, int]) -> str:
    """Return an expression in which each call of a group measure is replaced by its value in `values`."""
    for start, end, name, arguments in reversed(list(grouped_calls(text))):
        text = f"{text[:start]}{values[_measure(name, arguments)]}L{text[end:]}"
    return text


def _measure(name: str, arguments: list[str]) -> GroupMeasure:
    return GroupMeasure(tuple(arguments)) if name == "k_anonymity" else GroupMeasure(tuple(arguments[1:]), arguments[0])
