"""Splits rules at k_anonymity() and l_diversity(), which measure the smallest of the groups that columns make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from waterclock.dpl.query.aggregates import grouped_calls

NO_GROUPS = 2**63 - 1
"""The value for no rows: no group is too small. A rule that asks for a least value holds."""


@dataclass(frozen=True, slots=True)
class GroupMeasure:
    """A measure of groups of rows: the least `aggregate` of the groups with equal values of `columns` (Spark SQL).

    NULL is a value like others in `columns`. `sensitive`: the expression whose values are counted, empty for rows.
    """

    columns: tuple[str, ...]
    sensitive: str = ""


def group_measures_in(texts: Iterable[str]) -> list[GroupMeasure]:
    """Return the distinct measures of groups in some expressions."""
    return list(dict.fromkeys(_measure(name, said) for text in texts for _, _, name, said in grouped_calls(text)))


def with_group_values(text: str, values: Mapping[GroupMeasure, int]) -> str:
    """Return an expression with a literal in place of each measure of groups."""
    for start, end, name, said in reversed(list(grouped_calls(text))):
        text = f"{text[:start]}{values[_measure(name, said)]}L{text[end:]}"
    return text


def _measure(name: str, said: list[str]) -> GroupMeasure:
    return GroupMeasure(tuple(said)) if name == "k_anonymity" else GroupMeasure(tuple(said[1:]), said[0])
