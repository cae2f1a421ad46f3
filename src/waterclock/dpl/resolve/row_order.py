"""Checks SORT BY, the order of the rows in each file of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from waterclock.dpl.query.column_scope import unknown_column
from waterclock.dpl.query.visible_columns import Names
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span, find_name
from waterclock.errors import WaterclockError
from waterclock.flow.column_types import type_of
from waterclock.flow.row_order import has_order
from waterclock.timelabel.label import TIMELABEL

_WORD = "SORT BY"


def check_row_order(
    draft: UnresolvedTable, columns: Names | None, known_types: Mapping[str, str]
) -> Iterator[WaterclockError]:
    """Yield errors for columns of SORT BY that are unknown, named twice, or cannot be sorted by.

    `columns` are the columns that readers of the table see, or None if not all are known. `known_types` has their types
    in the last run; a type in the column list comes first.
    """
    if not draft.declared.sort_by:
        return
    whole = draft.at(_WORD)
    listed = {column.name.lower(): column for column in draft.declared.columns.named}
    types = {name.lower(): text for name, text in known_types.items()}
    types |= {name: column.type for name, column in listed.items() if column.type}
    seen: dict[str, str] = {}
    for name in draft.declared.sort_by:
        lower, span = name.lower(), find_name(name, whole)
        column = listed.get(lower)
        if lower in seen:
            yield whole.refuse(
                "E384",
                f"{_WORD} names {name} twice",
                why="rows are in its order already",
                fix="name each column once",
            )
        elif lower == TIMELABEL:
            yield span.refuse(
                "E384",
                f"{_WORD} names timelabel",
                why="all rows of a slice have the same one, and readers find a label's files without it",
                fix="leave it out, or name the column by which the table is searched",
            )
        elif columns is not None and lower not in columns:
            yield unknown_column(span, name, {each: each for each in columns.values()}, [(draft.name, columns)])
        elif column is not None and column.ending is not None:
            yield span.refuse(
                "E384",
                f"{_WORD} names {name}, which ends on {column.ending.day}",
                why="from that day on it is NULL",
                fix=f"leave {name} out: batches that are done stay as they are",
            )
        elif lower in types:
            yield from _check_type(name, types[lower], span)
        seen[lower] = name


def _check_type(name: str, written: str, span: Span) -> Iterator[WaterclockError]:
    type_ = type_of(written)
    if type_ is not None and not has_order(type_):
        yield span.refuse(
            "E384",
            f"{_WORD} names {name}, which has the type {written}",
            why="Spark has no order for a MAP, nor for a value that contains one",
            fix=f"leave {name} out, or make the value that readers search a column of its own",
        )
