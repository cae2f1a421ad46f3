"""The order of the rows in each stored file (SORT BY): which types have an order."""

from __future__ import annotations

from waterclock.flow.column_types import Array, ColumnType, Dictionary, Struct


def has_order(type_: ColumnType) -> bool:
    """Return whether Spark can sort values of a type. It cannot sort a MAP, nor a value that contains one."""
    if isinstance(type_, Dictionary):
        return False
    if isinstance(type_, Array):
        return has_order(type_.element)
    return not isinstance(type_, Struct) or all(has_order(member.type) for member in type_.members)
