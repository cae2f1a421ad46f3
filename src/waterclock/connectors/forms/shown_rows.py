"""Reads the rows, changes and proposals of a form that a person sees, who does not see all of it.

Each row is read as it is stored, and shown as the grants show it. Searching, sorting and counting use what is shown, so
nothing follows from values that are not. Cost: a search, a sort, and a page of few shown rows read the whole form.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from waterclock.connectors.forms.changes import StoredRow, read_json, read_rows, show_row
from waterclock.connectors.forms.database import FormsSession
from waterclock.connectors.forms.proposal_store import ProposedTexts
from waterclock.flow.form_views import FormView
from waterclock.flow.forms import Entity
from waterclock.flow.row_conditions import ValueKind, kind_of_type

if TYPE_CHECKING:
    from waterclock.connectors.forms.history import Change, RowQuery

MOST_SORTED = 10_000
"""The maximum number of rows before those of a page that is sorted by a column."""


def show_rows(view: FormView, rows: Iterable[StoredRow]) -> Iterator[StoredRow]:
    """Yield the rows that are shown, each with the columns that are shown."""
    return (shown for row in rows if (shown := show_row(view, row)) is not None)


def find_rows(view: FormView, rows: Iterable[StoredRow], query: RowQuery) -> tuple[list[StoredRow], bool]:
    """Return a page of the rows that are shown, and whether more follow. `rows` are in the order of their keys."""
    found = (row for row in show_rows(view, rows) if _matches(view.shown, row, query))
    if query.sort is None:
        page = list(islice((row for row in found if row.key > query.after), query.limit + 1))
    else:
        first = min(max(query.offset, 0), MOST_SORTED)
        order = _SortOrder(view.shown, query.sort)
        pick = heapq.nlargest if query.is_descending else heapq.nsmallest
        page = pick(first + query.limit + 1, found, key=order.key_of)[first:]
    return page[: query.limit], len(page) > query.limit


def count_shown_rows(view: FormView, rows: Iterable[StoredRow], most: int) -> tuple[int, int]:
    """Return how many rows are shown, up to `most`, and how many of these lack a required value that is shown."""
    found = list(islice((row.is_waiting for row in show_rows(view, rows)), most))
    return len(found), sum(found)


def show_change(view: FormView, change: Change) -> Change | None:
    """Return a change with the versions and columns that are shown; None if no part of it is shown."""
    before, after = view.project(change.before), view.project(change.after)
    shown = replace(change, before=before, after=after)
    return shown if (before is None) is not (after is None) or shown.differences else None


def is_proposal_shown(view: FormView, session: FormsSession, entity: Entity, proposed: Iterable[ProposedTexts]) -> bool:
    """Return whether a person sees all that a proposal changes, also in the rows as they are."""
    texts = list(proposed)
    if not all(view.shows_change(read_json(before), read_json(after)) for _, _, before, after in texts):
        return False
    return all(view.columns_of(row.content) for row in read_rows(session, entity, [key for key, *_ in texts]))


def _matches(shown: Entity, row: StoredRow, query: RowQuery) -> bool:
    if query.is_waiting and not row.is_waiting:
        return False
    fields = ((shown.field(name), value) for name, value in (query.equal or {}).items())
    if any(field is not None and (row.content.get(field.name) or "") != value for field, value in fields):
        return False
    text = query.text.lower()
    return not text or any(text in (row.content.get(field.name) or "").lower() for field in shown.fields)


class _SortOrder:
    """Orders rows by a column as values of its type, rows without a value first."""

    def __init__(self, shown: Entity, column: str) -> None:
        self._field = shown.field(column)

    def key_of(self, row: StoredRow) -> tuple[int, float, str, str]:
        """Return the key by which a row is sorted."""
        text = None if self._field is None else row.content.get(self._field.name)
        if self._field is None or text is None:
            return 0, 0.0, "", row.key
        if self._field.type in {"FLOAT", "DOUBLE"} or kind_of_type(self._field.type) is ValueKind.NUMBER:
            try:
                return 1, float(text), text, row.key
            except ValueError:
                return 1, 0.0, text, row.key
        return 1, 0.0, text, row.key
