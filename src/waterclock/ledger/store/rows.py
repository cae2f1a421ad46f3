"""Selects columns by their names, builds records from rows, and splits values for statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import sqlalchemy as sa
    from _typeshed import DataclassInstance

    from waterclock.ledger.store.schema import AnyRow

R = TypeVar("R", bound="DataclassInstance")
V = TypeVar("V")


def columns_of(table: sa.FromClause, names: str) -> tuple[sa.ColumnElement[Any], ...]:
    """Return the columns of a table with these names, which are separated by blanks."""
    return tuple(table.c[name] for name in names.split())


def record_of(kind: type[R], row: AnyRow, **others: Any) -> R:
    """Build a record from a row: each field is the column of its name, unless `others` has a value for it.

    Cost: some microseconds. Raises AttributeError for a field with neither.
    """
    taken = {name: getattr(row, name) for name in _names_of(kind) if name not in others}
    return kind(**taken, **others)


@cache
def _names_of(kind: type[DataclassInstance]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def chunks_of(values: Sequence[V], most: int) -> Iterator[Sequence[V]]:
    """Split values into chunks of at most `most`, in their order."""
    return (values[start : start + most] for start in range(0, len(values), most))
