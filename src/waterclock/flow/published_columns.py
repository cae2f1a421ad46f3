"""Columns that a PUBLISH computes, and the names under which it sends columns and keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waterclock.flow.declarations import Columns


@dataclass(frozen=True, slots=True)
class PublishedExpression:
    """A computed column of a PUBLISH, `name AS (expression)`: Spark SQL over the columns of the published table.

    `columns`: the columns in the expression. `copies`: the column, if the expression is only its name; else None.
    """

    expression: str
    columns: tuple[str, ...] = ()
    copies: str | None = None


def find_sent_name(columns: Columns, name: str) -> str | None:
    """Return the name under which a column of the published table is sent unchanged, or None if it is not sent."""
    lower = name.lower()
    if columns.is_open:
        return name
    for column in columns.named:
        source = column.name if column.made_as is None else column.made_as.copies
        if source is not None and source.lower() == lower:
            return column.name
    return None


def list_sent_keys(columns: Columns, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the names under which a table's key columns are sent; empty if a computed column replaces one of them.

    Two keys may have the same computed value, and a destination that used it as its key would lose one of the rows.
    """
    made = {column.name.lower() for column in columns.named if column.made_as is not None}
    found = [(find_sent_name(columns, key), key) for key in keys]
    if any(name is None and key.lower() in made for name, key in found):
        return ()
    return tuple(name or key for name, key in found)
