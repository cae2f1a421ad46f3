"""Suggests values for a row that waits, from rows with alike keys. A person chooses one; nothing applies it by itself.

Only the rows next to the key in the order of keys are compared, so the cost does not grow with the form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from waterclock.connectors.forms.changes import SELECT_ROWS, StoredRow, split_key, stored_row
from waterclock.connectors.forms.database import FormsDatabase
from waterclock.connectors.forms.shown_rows import show_rows
from waterclock.connectors.forms.values import Row
from waterclock.flow.form_views import FormView
from waterclock.flow.forms import Entity

MOST_SUGGESTIONS = 3
COMPARED = 500
"""The number of rows before and after the key that are compared."""

_LEAST_ALIKE = 0.6  # of 1, which is an equal key
_LETTERS = 100  # of a key that are compared


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Values for the empty columns that a row needs.

    `like` is the key of the most alike row with these values, `likeness` is from 0 to 1, and `rows` is the number of
    alike rows with these values.
    """

    values: Row
    like: str
    likeness: float
    rows: int


def suggest_values(
    database: FormsDatabase, entity: Entity, row: StoredRow, view: FormView | None = None
) -> list[Suggestion]:
    """Return values of rows with alike keys for the empty columns that a row needs, the most alike first.

    These are the required columns, and those with a list of values. `row` and the others are as `view` shows them.

    Empty for a row that does not wait. Cost: two reads of an index, and at most 1,000 comparisons of 100 letters.
    """
    if all(row.content.get(name) for name in entity.required):
        return []
    saved = (field.name for field in entity.values if field.is_required or field.choices)
    missing = [name for name in saved if not row.content.get(name)]
    found: list[StoredRow] = []
    condition = "entity = ?" + (
        " AND waits = 0" if view is None else ""
    )  # a row may wait for a value that is not shown
    with database.open_for_reading(entity.table) as session:
        for comparison, order in (("<", "DESC"), (">", "ASC")):
            sql = f"{SELECT_ROWS} WHERE {condition} AND key {comparison} ? ORDER BY key {order} LIMIT ?"
            found += map(stored_row, session.rows_of(sql, (entity.name, row.key, COMPARED)))
    others = found if view is None else [shown for shown in show_rows(view, found) if not shown.is_waiting]
    return _rank(entity, row, others, missing)


def _rank(entity: Entity, row: StoredRow, others: Sequence[StoredRow], missing: Sequence[str]) -> list[Suggestion]:
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(_comparable(entity, row.key))  # the matcher keeps what it knows of the second text
    groups: dict[tuple[str | None, ...], list[tuple[float, str]]] = {}
    for other in others:
        matcher.set_seq1(_comparable(entity, other.key))
        if min(matcher.real_quick_ratio(), matcher.quick_ratio()) < _LEAST_ALIKE:
            continue
        likeness = matcher.ratio()
        if likeness >= _LEAST_ALIKE:
            groups.setdefault(tuple(other.content.get(name) for name in missing), []).append((-likeness, other.key))
    ranked = sorted((*min(alike), len(alike), values) for values, alike in groups.items() if any(values))
    return [
        Suggestion({name: value for name, value in zip(missing, values, strict=True) if value}, key, -negative, rows)
        for negative, key, rows, values in ranked[:MOST_SUGGESTIONS]
    ]


def _comparable(entity: Entity, key: str) -> str:
    """Return the letters and digits of a key in lower case; the key itself if it has none."""
    text = " ".join(split_key(entity, key))[:_LETTERS].casefold()
    return "".join(letter for letter in text if letter.isalnum()) or text
