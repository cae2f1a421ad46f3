"""Reads entities: a row or all rows as they are, the history of a row, batches, and rows as of an instant.

Undoes a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waterclock.connectors.forms.changes import (
    MOST_EDITS,
    SELECT_ROWS,
    Applied,
    Edit,
    Origin,
    StoredRow,
    apply,
    check_edits,
    is_registered,
    key_text,
    read_json,
    read_rows,
    register,
    show_row,
    split_key,
    stored_row,
)
from waterclock.connectors.forms.database import BATCHES, CHANGES, FormsDatabase, FormsSession, from_text, to_text
from waterclock.connectors.forms.row_indexes import create_indexes, has_indexes
from waterclock.connectors.forms.shown_rows import show_change
from waterclock.connectors.forms.values import Row
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import FormRights
from waterclock.flow.form_views import FormView
from waterclock.flow.forms import Entity

MOST_CHECKED = 10_000
"""The maximum number of rows of a batch that is checked before undo is offered, in about 0.4 s."""

_ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a row: its number, its batch, the row before and after, and who made it, when and why.

    `before` is None for a new row, `after` for a deleted one. A change that was proposed has the number of its
    proposal, and the person who approved it.
    """

    number: int
    batch: int
    key: str
    before: Row | None
    after: Row | None
    who: str
    at: datetime
    why: str
    origin: Origin
    undoes: int | None
    approved_by: str | None = None
    proposal: int | None = None

    @property
    def differences(self) -> tuple[tuple[str, str | None, str | None], ...]:
        """The columns that differ, each with its value before and after."""
        return differences_of(self.before, self.after)


def differences_of(before: Row | None, after: Row | None) -> tuple[tuple[str, str | None, str | None], ...]:
    """Return the columns that differ in two versions of a row, each with both values. None is no row."""
    old, new = before or {}, after or {}
    names = dict.fromkeys((*old, *new))
    return tuple((name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name))


def iterate_rows(database: FormsDatabase, entity: Entity, after: str = "") -> Iterator[StoredRow]:
    """Yield all current rows after a key, in the order of their keys, as of one moment, a page at a time."""
    with database.open_for_reading(entity.table) as session:
        while True:
            sql = f"{SELECT_ROWS} WHERE entity = ? AND key > ? ORDER BY key LIMIT {_ROWS_AT_ONCE}"
            page = [stored_row(row) for row in session.rows_of(sql, (entity.name, after))]
            yield from page
            if len(page) < _ROWS_AT_ONCE:
                return
            after = page[-1].key


def find_row(
    database: FormsDatabase, entity: Entity, key: Sequence[str], view: FormView | None = None
) -> StoredRow | None:
    """Return the current row of a key, as `view` shows it; None if there is none, or if it is not shown."""
    with database.open_for_reading(entity.table) as session:
        return show_row(view, next(iter(read_rows(session, entity, [key_text(key)])), None))


def find_change(
    database: FormsDatabase, entity: Entity, number: int, key: Sequence[str], view: FormView | None = None
) -> Change | None:
    """Return the change of a row with a number; None if the row has no such change, or if it is not shown."""
    found = _changes(database, entity, "c.id = ? AND c.key = ?", (number, key_text(key)), 1)
    return next(iter(_show_changes(view, found)), None)


def list_changes(
    database: FormsDatabase, entity: Entity, key: Sequence[str], most: int = 100, view: FormView | None = None
) -> list[Change]:
    """Return the newest changes of a row, newest first, as `view` shows them. `most` are read."""
    return _show_changes(view, _changes(database, entity, "c.key = ?", (key_text(key),), most))


def _show_changes(view: FormView | None, changes: list[Change]) -> list[Change]:
    if view is None:
        return changes
    return [shown for change in changes if (shown := show_change(view, change)) is not None]


def list_changes_of_batch(database: FormsDatabase, entity: Entity, batch: int, most: int) -> list[Change]:
    """Return changes of a batch, last one first."""
    return _changes(database, entity, "c.batch = ?", (batch,), most)


def count_changes(database: FormsDatabase, entity: Entity, batch: int, who: str) -> int:
    """Return how many rows of the form a batch of this person changed; 0 for a batch of another person."""
    sql = f"SELECT count(*) FROM {CHANGES} AS c JOIN {BATCHES} AS b ON b.id = c.batch"
    with database.open_for_reading(entity.table) as session:
        found = session.first_of(f"{sql} WHERE c.entity = ? AND c.batch = ? AND b.who = ?", (entity.name, batch, who))
    return int(found[0])


def undo(
    database: FormsDatabase, entity: Entity, batch: int, *, by: FormRights, why: str, most: int = MOST_EDITS
) -> Applied:
    """Restore the rows of a batch as they were before it, as a batch of its own, or as a proposal.

    Raises E892 if one of its rows was changed since, E894 if the entity has no such batch, E940 without the right.
    """
    edits = _edits_of_undo(database, entity, batch, by, most)
    return apply(database, entity, by=by, why=why, edits=edits, origin=Origin.UNDO, undoes=batch)


def can_undo(database: FormsDatabase, entity: Entity, batch: int, by: FormRights) -> bool:
    """Return whether `undo` would change rows now, by the checks of `undo`.

    Also true for a batch of more than `MOST_CHECKED` rows, which is checked by `undo` alone. Cost: it reads the rows of
    a smaller batch, as they were and as they are.
    """
    try:
        listed = _edits_of_undo(database, entity, batch, by, MOST_CHECKED + 1)
        if len(listed) > MOST_CHECKED:
            return True
        edits = {key_text(edit.key): edit for edit in listed}
        with database.open_for_reading(entity.table) as session:
            return bool(check_edits(session, entity, by, edits, Origin.UNDO)[0])
    except WaterclockError as error:
        if error.code not in _REFUSED:
            raise
        return False


_REFUSED = {"E891", "E892", "E894", "E940"}  # values, conflicts, rows that do not exist, rights


def _edits_of_undo(database: FormsDatabase, entity: Entity, batch: int, by: FormRights, most: int) -> list[Edit]:
    """Return the edits that restore the rows of a batch. Raises E894 for an unknown batch, E940 without the right."""
    by.require_edit(entity.table)
    changes = list_changes_of_batch(database, entity, batch, most)
    if by.view is not None and not all(by.view.shows_change(it.before, it.after) for it in changes):
        if _show_changes(by.view, changes):
            raise by.not_shown_error(f"batch {batch} of {entity.table}", entity.table)
        changes = []
    if not changes:
        raise WaterclockError(
            "E894",
            f"{entity.table} has no batch {batch}",
            fix=f"`waterclock edit history {entity.table} KEY` shows the batches of a row",
        )
    return [
        Edit(
            split_key(entity, change.key),
            change.before if by.view is None else _undone_values(change),
            None if change.after is None else change.number,
            is_whole=by.view is None,
        )
        for change in changes
    ]


def _undone_values(change: Change) -> Row | None:
    """Return the values that a change replaced, also those that were empty; None if it made a new row."""
    return None if change.before is None else {name: before for name, before, _ in change.differences}


def rows_as_of(database: FormsDatabase, entity: Entity, at: datetime) -> dict[str, Row]:
    """Return the rows whose changes have a time before `at`, by key, from the history alone."""
    sql = (
        f"SELECT c.key, c.after FROM {CHANGES} AS c JOIN (SELECT key, max(id) AS id FROM {CHANGES} WHERE entity = ?"
        f" AND batch <= ? GROUP BY key) AS m ON c.id = m.id WHERE c.after IS NOT NULL"
    )
    with database.open_for_reading(entity.table) as session:
        found = session.rows_of(sql, (entity.name, last_batch_before(session, at)))
    return {str(key): read_json(after) or {} for key, after in found}


def last_batch_before(session: FormsSession, at: datetime) -> int:
    """Return the number of the last batch with a time before `at`; 0 if there is none."""
    row = session.first_of(f"SELECT id FROM {BATCHES} WHERE at < ? ORDER BY at DESC, id DESC LIMIT 1", (to_text(at),))
    return 0 if row is None else int(row[0])


def require_registered(database: FormsDatabase, entity: Entity) -> None:
    """Record a changed declaration of the entity, so that its rows are marked as waiting by it. Raises E893.

    Its columns then have the indexes of its list. Cost: three queries, without a lock, if the declaration has not
    changed; else a read of the rows for each column.
    """
    with database.open_for_reading(entity.table) as session:
        if is_registered(session, entity) and has_indexes(session, entity):
            return
    with database.open_for_writing(entity.table) as session:
        register(session, entity)
        create_indexes(session, entity)


def _changes(database: FormsDatabase, entity: Entity, condition: str, values: Sequence[Any], most: int) -> list[Change]:
    sql = (
        "SELECT c.id, c.batch, c.key, c.before, c.after, b.who, b.at, b.why, b.origin, b.undoes,"
        " b.approved_by, b.proposal"
        f" FROM {CHANGES} AS c JOIN {BATCHES} AS b ON b.id = c.batch WHERE c.entity = ? AND {condition}"
        " AND (c.before IS NOT NULL OR c.after IS NOT NULL)"  # a change without versions was erased
        f" ORDER BY c.id DESC LIMIT {int(most)}"
    )
    with database.open_for_reading(entity.table) as session:
        return [
            Change(
                number, batch, key, read_json(before), read_json(after), who, from_text(at), why, Origin(origin), *rest
            )
            for number, batch, key, before, after, who, at, why, origin, *rest in session.rows_of(
                sql, (entity.name, *values)
            )
        ]
