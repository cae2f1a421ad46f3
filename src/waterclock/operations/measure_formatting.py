"""Formats the measures of a batch as lines: one for each MEASURE, and one for each column of a PROFILE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waterclock.flow.measures import ROWS, read_measured_values

_OF_COLUMN = {"nulls": "{} null", "distinct": "about {} different", "min": "from {}", "max": "to {}"}


def measured_lines(measures: Mapping[str, Any]) -> list[str]:
    """Format the measures that the ledger stores for a revision, as lines of text."""
    lines: list[str] = []
    columns: dict[str, list[str]] = {}
    for name, found in read_measured_values(measures).items():
        column, _, which = name.rpartition(".")
        if column and which in _OF_COLUMN and "(" not in name:
            if found.value is not None:
                columns.setdefault(column, []).append(_OF_COLUMN[which].format(found.value))
        elif name != ROWS:
            lines.append(f"{name}: {'NULL' if found.value is None else found.value}")
    return [*lines, *(f"{column}: {', '.join(parts)}" for column, parts in columns.items())]
