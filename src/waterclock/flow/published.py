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

    `columns` are those in the expression. `copies`: the column that the expression only renames, None for any other.
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
    """Return the names under which the columns of a table's key are sent; empty if a computed column has such a name.

    Computed values may be the same for two rows, and a destination that uses them as a key would lose one.
    """
    made = {column.name.lower() for column in columns.named if column.made_as is not None}
    found = [(find_sent_name(columns, key), key) for key in keys]
    if any(name is None and key.lower() in made for name, key in found):
        return ()
    return tuple(name or key for name, key in found)
