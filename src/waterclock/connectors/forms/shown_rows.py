"""Reads the rows, changes and proposals of a form that a person sees, who does not see all of it.

Each row is read as it is stored, and shown as the grants show it. Lists of rows are searched, sorted and counted by SQL
with the same verdict (`row_lists`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.connectors.forms.changes import StoredRow, read_json, read_rows, show_row
from waterclock.connectors.forms.database import FormsSession
from waterclock.connectors.forms.proposal_store import ProposedTexts
from waterclock.flow.form_views import FormView
from waterclock.flow.forms import Entity

HIDDEN_REASON = "a reason that is not shown to you"

if TYPE_CHECKING:
    from waterclock.connectors.forms.history import Change


def show_rows(view: FormView, rows: Iterable[StoredRow]) -> Iterator[StoredRow]:
    """Yield the rows that are shown, each with the columns that are shown."""
    return (shown for row in rows if (shown := show_row(view, row)) is not None)


def show_change(view: FormView, change: Change) -> Change | None:
    """Return a change with the versions and columns that are shown; None if no part of it is shown.

    Its reason is only shown if all of its columns are: it may quote the values of others.
    """
    before, after = view.project(change.before), view.project(change.after)
    shown = replace(change, before=before, after=after)
    if not {*change.differences} <= {*shown.differences}:
        shown = replace(shown, why=HIDDEN_REASON)
    return shown if (before is None) is not (after is None) or shown.differences else None


def is_proposal_shown(view: FormView, session: FormsSession, entity: Entity, proposed: Iterable[ProposedTexts]) -> bool:
    """Return whether a person sees all that a proposal changes, also in the rows as they are."""
    texts = list(proposed)
    if not all(view.shows_change(read_json(before), read_json(after)) for _, _, before, after in texts):
        return False
    return all(view.columns_of(row.content) for row in read_rows(session, entity, [key for key, *_ in texts]))
