"""Removes values of persons from the measures of a batch, such as `max(customer_id)`, and keeps counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from waterclock.storage.folds.slices_without_rows import Persons
from waterclock.storage.search.row_counts import is_row_count


def without_persons(measures: Mapping[str, Any], persons: Persons) -> dict[str, Any]:
    """Return measures without values of persons.

    A number is taken for a person's value only in a measure that names a column of the subject, such as
    `max(customer_id)` or `customer_id.min`. Others are counts.
    """
    texts = frozenset(value for value in persons.values if not value.removeprefix("-").isdecimal())
    names = re.compile("|".join(rf"\b{re.escape(column)}\b" for column in persons.columns) or "(?!)", re.IGNORECASE)

    def without(of: Any, parents: str, values: frozenset[str]) -> Any:
        if isinstance(of, Mapping):
            found = {}
            for name, value in of.items():
                is_count = is_row_count(parents, name, value)
                wanted = persons.values if names.search(name) and not is_count else values
                if is_count or not _is_value(value, wanted):
                    found[name] = value if is_count else without(value, f"{parents}.{name}", wanted)
            return found
        if isinstance(of, list | tuple):
            return [without(each, parents, values) for each in of if not _is_value(each, values)]
        return of

    found: dict[str, Any] = without(measures, "measures", texts)
    return found


def _is_value(of: Any, values: frozenset[str]) -> bool:
    if isinstance(of, Mapping) and of.keys() == {"value", "type"}:
        of = of["value"]
    return isinstance(of, (str, int)) and not isinstance(of, bool) and str(of) in values
