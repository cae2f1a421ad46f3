"""The order of the rows in each stored file (SORT BY, CLUSTER BY and others): which types have one, and bounds."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.flow.column_types import Array, ColumnType, Dictionary, Struct


@dataclass(frozen=True, slots=True)
class Buckets:
    """BUCKET BY: the columns whose hash decides in which of `number` buckets of a label a row is."""

    columns: tuple[str, ...]
    number: int

    def __str__(self) -> str:
        return f"({', '.join(self.columns)}) into {self.number}"


WITH_BOUNDS = frozenset({"CLUSTER BY", "PARTITION BY"})
"""The clauses that split rows by values, so that readers skip files by the bounds in Delta's log."""
MOST_BUCKETS = 1024
"""The most buckets of a label: each is a file at least."""
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
