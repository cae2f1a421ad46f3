"""Names the columns of FLAT(u): those of table u, and those of each parent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from waterclock.flow.declarations import Flat, FlatJoin, Query
from waterclock.flow.merge_settings import RECORD
from waterclock.timelabel.label import TIMELABEL


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """A column of FLAT(u): its `name` in the result, and the table and column from which it comes."""

    name: str
    table: str
    column: str


def flats_of(query: Query) -> tuple[Flat, ...]:
    """Return the FLAT reads of a query and its views, each once and in the order written."""
    found: dict[Flat, None] = dict.fromkeys(flat for branch in query.branches for flat in flats_of(branch))
    for reference in query.tables:
        if reference.flat is not None:
            found[reference.flat] = None
        if reference.view is not None:
            found.update(dict.fromkeys(flats_of(reference.view)))
    return tuple(found)


def flat_columns(flat: Flat, columns_of: Callable[[str], Iterable[str] | None]) -> tuple[FlatColumn, ...] | None:
    """Return the columns of FLAT(u): those of u, then those of each parent; None if a table's columns are not known.

    `columns_of` returns the columns of a table that its readers see. Keys, version times and HIDDEN columns of parents
    are left out. The ROLE of each join is a suffix of the parent's columns, as in `city_home_billing`.
    """
    own = columns_of(flat.read.table)
    if own is None:
        return None
    found = [FlatColumn(name, flat.read.table, name) for name in own if name.lower() != TIMELABEL]
    for join in flat.joins:
        parent_columns = flat_columns(join.parent, columns_of)
        if parent_columns is None:
            return None
        found += select_parent_columns(join, parent_columns)
    return tuple(found)


def select_parent_columns(join: FlatJoin, columns: Iterable[FlatColumn]) -> list[FlatColumn]:
    """Return the columns of a parent that a join adds to its child, with the join's ROLE as a suffix of their names."""
    record = RECORD if join.parent.is_temporal else ()
    left_out = {name.lower() for name in (*join.parent_columns, *record, TIMELABEL)}
    hidden = {(join.parent.read.table, name.lower()) for name in join.left_out}
    suffix = f"_{join.role}" if join.role else ""
    return [
        FlatColumn(each.name + suffix, each.table, each.column)
        for each in columns
        if each.name.lower() not in left_out and (each.table, each.name.lower()) not in hidden
    ]


def find_name_clashes(columns: Iterable[FlatColumn]) -> dict[str, tuple[FlatColumn, ...]]:
    """Map each name that several columns have, ignoring case, to these columns."""
    by_name: dict[str, list[FlatColumn]] = {}
    for each in columns:
        by_name.setdefault(each.name.lower(), []).append(each)
    return {found[0].name: tuple(found) for found in by_name.values() if len(found) > 1}
