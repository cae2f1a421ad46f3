"""The order of the rows in each stored file (SORT BY, CLUSTER BY): which types have one, and bounds."""

from __future__ import annotations

from waterclock.flow.column_types import Array, ColumnType, Dictionary, Struct

MOST_CLUSTER_COLUMNS = 3
"""The most columns of CLUSTER BY: of more, a search for one of them would skip few files."""


def has_bounds(type_: ColumnType) -> bool:
    """Return whether values of a type have least and greatest values in Delta's log, by which files are skipped."""
    return isinstance(type_, str) and type_ not in {"binary", "boolean", "variant"}


def has_order(type_: ColumnType) -> bool:
    """Return whether Spark can sort values of a type. It cannot sort a MAP, nor a value that contains one."""
    if isinstance(type_, Dictionary):
        return False
    if isinstance(type_, Array):
        return has_order(type_.element)
    return not isinstance(type_, Struct) or all(has_order(member.type) for member in type_.members)
