"""Changes rows of an entity: `apply` writes rows with their history, or a proposal where the form needs approval.

A version is the number of the change that made a row as it is. It is never used again, so an editor who saw an earlier
life of a key cannot overwrite a later one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from waterclock.connectors.forms.database import (
    BATCHES,
    CHANGES,
    CLOCK,
    ENTITIES,
    ROWS,
    FormsDatabase,
    FormsSession,
    from_text,
    to_text,
)
from waterclock.connectors.forms.proposal_store import store_proposal
from waterclock.connectors.forms.row_checks import hidden_columns_of, list_warnings, require_valid_row
from waterclock.connectors.forms.values import Row
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow.form_rights import FormRights
from waterclock.flow.form_views import FormView
from waterclock.flow.forms import Entity
from waterclock.printable import printable

MOST_EDITS = 100_000
"""The maximum number of rows that one batch changes."""

NOT_STORABLE = re.compile("[\\0\ud800-\udfff]")
"""The characters that a database cannot store: PostgreSQL has no NUL, and neither has lone surrogates."""

_KEYS_OF_A_QUERY = 500
_MOST_WHY = 2000


class Origin(StrEnum):
    """The way in which a batch of changes was made."""

    EDIT = "edit"
    IMPORT = "import"
    PUBLISH = "publish"
    UNDO = "undo"


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one row, as stored texts by column.

    - `key`: the values of the KEY.
    - `values`: the values to set; other columns stay as they are. None deletes the row.
    - `version`: the version that the editor saw; None if there was no row.
    - `is_whole`: columns that `values` does not name become empty.
    """

    key: tuple[str, ...]
    values: Row | None
    version: int | None
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A current row: its version, and the texts of its columns. `hints` are texts that a publish sent with the key."""

    key: str
    version: int
    content: Row
    is_waiting: bool = False
    hints: Row | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """An edit of a row that was changed since the editor saw it. `theirs` is the current row, None if deleted."""

    edit: Edit
    theirs: StoredRow | None


@dataclass(frozen=True, slots=True)
class NewBatch:
    """A batch to write: its entity, the person, the reason, its origin, and the batch that it undoes.

    A batch that was a proposal has its number, and the person who approved it.
    """

    entity: str
    who: str
    why: str
    origin: Origin
    undoes: int | None = None
    approved_by: str | None = None
    proposal: int | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of `apply`: the number of the batch, and the number of changed rows. `batch` is None without any.

    Where the form needs approval, `proposal` is the number of the proposal, and no row has changed yet. `warnings` are
    the rules that the changed rows break, and that only warn.
    """

    batch: int | None
    rows: int
    at: datetime | None = None
    proposal: int | None = None
    warnings: tuple[str, ...] = ()


class EditConflictError(WaterclockError):
    """Other people changed rows since the editor saw them. Nothing was written."""

    conflicts: tuple[Conflict, ...] = ()


def key_text(values: Sequence[str]) -> str:
    """Return the text under which a row is stored: the value of a KEY of one column, else a JSON list of all."""
    return values[0] if len(values) == 1 else json.dumps(list(values), ensure_ascii=False, separators=(",", ":"))


def split_key(entity: Entity, key: str) -> tuple[str, ...]:
    """Return the values of the KEY from the text of `key_text`. Raises E894 for a text that no row can have."""
    values: object = [key]
    if len(entity.keys) > 1:
        with suppress(ValueError, RecursionError):
            values = json.loads(key)
    is_key = isinstance(values, list) and len(values) == len(entity.keys) and all(map(_is_storable, values))
    if not is_key or not isinstance(values, list):
        raise WaterclockError("E894", f"{entity.table} has no row {printable(key)}", fix="look at the list of rows")
    return tuple(values)


def _is_storable(value: object) -> bool:
    return isinstance(value, str) and NOT_STORABLE.search(value) is None


def write_json(row: Row) -> str:
    """Return a row as JSON. Equal rows have equal texts, and columns without a value are left out."""
    kept = {name: value for name, value in sorted(row.items()) if value is not None}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def read_json(text: str | None) -> dict[str, str | None] | None:
    """Return the row of a JSON text; None for None."""
    return None if text is None else dict(json.loads(text))


def apply(
    database: FormsDatabase,
    entity: Entity,
    *,
    by: FormRights,
    why: str,
    edits: Sequence[Edit],
    origin: Origin = Origin.EDIT,
    undoes: int | None = None,
) -> Applied:
    """Write all edits as one batch, or none. An edit whose result is already there changes nothing.

    Where the form needs approval, the edits are stored as one proposal, and no row changes. `by` is the person, whose
    rights are checked against the rows that are there when the edits are written.

    Raises E940 for a person without the right to change these columns in these rows, before or after the change, E891
    for a value that cannot be stored, `EditConflictError` (E892) if a row has another version than its editor saw, E893
    if the entity has another KEY than its stored rows. Cost: one query for 500 keys, and two bulk statements.
    """
    who = by.name
    require_words(entity, who, why)
    by_key = _require_distinct_keys(entity, edits)
    with database.open_for_writing(entity.table) as session:
        by.require_edit(entity.table)
        register(session, entity)
        changed, current = check_edits(session, entity, by, by_key, origin)
        if not changed:
            return Applied(None, 0)
        warnings = _warnings_of(entity, by, changed, current, origin)
        if entity.needs_approval and origin is not Origin.PUBLISH:
            at = database.now(session)
            rows = [
                (key, None, None, after) if (there := current.get(key)) is None
                else (key, there.version, write_json(there.content), after)
                for key, after in _texts_of(changed).items()
            ]  # fmt: skip
            number = store_proposal(
                session, entity.name, who=who, why=why, origin=origin.value, undoes=undoes, at=at, rows=rows
            )
            done = Applied(None, len(changed), at, number, warnings)
        else:
            batch = NewBatch(entity.name, who, why, origin, undoes)
            number, at = write_batch(database, session, batch, changed, current, entity.required)
            done = Applied(number, len(changed), at, warnings=warnings)
    fault("forms.done")
    return done


def _warnings_of(
    entity: Entity, by: FormRights, changed: Mapping[str, Row | None], current: Mapping[str, StoredRow], origin: Origin
) -> tuple[str, ...]:
    """Return the warnings of rules, for changes that a person enters: others restore rows, or insert keys that wait."""
    if origin not in {Origin.EDIT, Origin.IMPORT}:
        return ()
    rows = ((key, current[key].content if key in current else None, after) for key, after in changed.items())
    return list_warnings(entity, rows, by.view)


def check_edits(
    session: FormsSession, entity: Entity, by: FormRights, edits: Mapping[str, Edit], origin: Origin
) -> tuple[dict[str, Row | None], dict[str, StoredRow]]:
    """Return each row that edits change as it would be, and the current rows. Nothing is written.

    `edits` are by the text of their key. Raises the errors of `apply`. Cost: one query for 500 keys.
    """
    current = {row.key: row for row in read_rows(session, entity, edits)}
    current = _require_shown_edits(entity, by, edits, current)
    changed = dict(find_changes(entity, edits, current, origin, by.view))
    versions = {key: (current[key].content if key in current else None, after) for key, after in changed.items()}
    by.require_changes(entity.table, versions)
    return changed, current


def _require_shown_edits(
    entity: Entity, by: FormRights, edits: Mapping[str, Edit], current: Mapping[str, StoredRow]
) -> dict[str, StoredRow]:
    """Return the current rows that are shown to a person. The others are as if they did not exist.

    Raises E891 for a new row whose key one of the others has, and E940 for a column that is not shown. Neither depends
    on a value that is not shown.
    """
    view = by.view
    if view is None:
        return dict(current)
    shown = {key: columns for key, row in current.items() if (columns := view.columns_of(row.content))}
    all_shown = frozenset(field.name for field in view.shown.fields)
    for key, edit in edits.items():
        if key in current and key not in shown and edit.values is not None and edit.version is None:
            raise unavailable_key_error(entity, key)
        if not set(edit.values or {}) <= shown.get(key, all_shown):
            raise by.not_shown_error(f"{key} of {entity.table}", entity.table, key)
    return {key: row for key, row in current.items() if key in shown}


def unavailable_key_error(entity: Entity, key: str) -> WaterclockError:
    """Build the error of a new row whose key a row has that is not shown to the person."""
    return WaterclockError(
        "E891", f"the key {printable(key)} of {entity.table} is not available", where=entity.table,
        why="this key cannot be used for a new row", fix="choose another key",
    )  # fmt: skip


def show_row(view: FormView | None, row: StoredRow | None) -> StoredRow | None:
    """Return a stored row as a person sees it; None if it is not shown. Hints of a publish are not granted."""
    if view is None or row is None:
        return row
    columns, content = view.columns_of(row.content), view.project(row.content)
    if content is None:
        return None
    is_waiting = any(name in columns and not content.get(name) for name in view.entity.required)
    return replace(row, content=content, is_waiting=is_waiting, hints=None)


def _texts_of(changed: Mapping[str, Row | None]) -> dict[str, str | None]:
    return {key: None if after is None else write_json(after) for key, after in changed.items()}


def next_time(database: FormsDatabase, session: FormsSession) -> datetime:
    """Return the time of a new batch: that of the database's clock, but before no batch and no collected window."""
    newest = session.first_of(f"SELECT at FROM {BATCHES} ORDER BY id DESC LIMIT 1")
    sealed = session.first_of(f"SELECT sealed_at FROM {CLOCK}")
    known = [from_text(row[0]) for row in (newest, sealed) if row and row[0]]
    return max([database.now(session), *known])


def register(session: FormsSession, entity: Entity) -> None:
    """Record the KEY and the required columns of an entity, and mark the rows that lack one of these.

    Raises E893 if rows were stored with another KEY.
    """
    keys, required = _declaration_of(entity)
    known = session.first_of(_REGISTERED, (entity.name,))
    if known is None:
        session.execute(f"INSERT INTO {ENTITIES} VALUES (?, ?, ?)", (entity.name, keys, required))
        return
    if known[0] != keys:
        if session.first_of(f"SELECT 1 FROM {CHANGES} WHERE entity = ? LIMIT 1", (entity.name,)):
            raise _changed_key_error(entity, json.loads(known[0]))
        session.execute(f"UPDATE {ENTITIES} SET keys = ? WHERE entity = ?", (keys, entity.name))
    if known[1] != required:
        texts = (session.json_field("content", name) for name in entity.required)
        missing = " OR ".join(f"coalesce({text}, '') = ''" for text in texts) or "1 = 0"
        marked = f"UPDATE {ROWS} SET waits = CASE WHEN {missing} THEN 1 ELSE 0 END WHERE entity = ?"
        session.execute(marked, (entity.name,))
        session.execute(f"UPDATE {ENTITIES} SET required = ? WHERE entity = ?", (required, entity.name))


_REGISTERED = f"SELECT keys, required FROM {ENTITIES} WHERE entity = ?"


def is_registered(session: FormsSession, entity: Entity) -> bool:
    """Return whether the KEY and the required columns of an entity are recorded as they are declared."""
    known = session.first_of(_REGISTERED, (entity.name,))
    return known is not None and tuple(known) == _declaration_of(entity)


def _declaration_of(entity: Entity) -> tuple[str, str]:
    return json.dumps([field.name for field in entity.keys]), json.dumps(list(entity.required))


def read_rows(session: FormsSession, entity: Entity, keys: Iterable[str]) -> Iterator[StoredRow]:
    """Yield the current rows of these keys, in any order."""
    listed = list(keys)
    for begin in range(0, len(listed), _KEYS_OF_A_QUERY):
        part = listed[begin : begin + _KEYS_OF_A_QUERY]
        sql = f"{SELECT_ROWS} WHERE entity = ? AND key IN ({', '.join('?' * len(part))})"
        yield from map(stored_row, session.rows_of(sql, (entity.name, *part)))


SELECT_ROWS = f"SELECT key, version, content, waits, hints FROM {ROWS}"


def stored_row(row: Sequence[object]) -> StoredRow:
    """Build a row from the columns of `SELECT_ROWS`."""
    key, version, content, waits, hints = row
    read = read_json(str(content)) or {}
    return StoredRow(str(key), int(str(version)), read, bool(waits), read_json(None if hints is None else str(hints)))


def find_changes(
    entity: Entity,
    by_key: Mapping[str, Edit],
    current: Mapping[str, StoredRow],
    origin: Origin,
    view: FormView | None = None,
) -> Iterator[tuple[str, Row | None]]:
    """Yield the new content of each row that changes. Raises E892 for rows with another version, E891 for values.

    Errors contain nothing that `view` does not show. Values that it does not show stay as they are, without a check.
    """
    conflicts = []
    for key, edit in by_key.items():
        there = current.get(key)
        after = _content_after(entity, edit, there)
        before = None if there is None else write_json(there.content)
        if (None if after is None else write_json(after)) == before:
            continue
        if (None if there is None else there.version) != edit.version:
            conflicts.append(Conflict(edit, show_row(view, there)))
            continue
        if after is not None and origin in {Origin.EDIT, Origin.IMPORT}:
            content = None if there is None else there.content
            require_valid_row(entity, key, after, content, view, hidden_columns_of(entity, view, content))
        yield key, after
    if conflicts:
        raise _conflict_error(entity, conflicts)


def _content_after(entity: Entity, edit: Edit, there: StoredRow | None) -> Row | None:
    if edit.values is None:
        return None
    before = {} if there is None or edit.is_whole else there.content
    of_key = {field.name: value for field, value in zip(entity.keys, edit.key, strict=True)}
    return {**before, **edit.values, **of_key}


def write_batch(
    database: FormsDatabase,
    session: FormsSession,
    new: NewBatch,
    changed: Mapping[str, Row | None],
    current: Mapping[str, StoredRow],
    required: Sequence[str],
) -> tuple[int, datetime]:
    """Write a batch with its changes and rows in the writing transaction, and return its number and time.

    `changed` has the new content of each key, None for a deleted row. `current` are the rows there, whose versions the
    caller has compared.
    """
    at = next_time(database, session)
    number = 1 + (session.first_of(f"SELECT max(id) FROM {BATCHES}")[0] or 0)
    batch = (number, new.entity, new.who, to_text(at), new.why, new.origin.value, new.undoes)
    session.execute(
        f"INSERT INTO {BATCHES} (id, entity, who, at, why, origin, undoes, approved_by, proposal)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*batch, new.approved_by, new.proposal),
    )
    fault("forms.batch")
    first = 1 + (session.first_of(f"SELECT max(id) FROM {CHANGES}")[0] or 0)
    texts = _texts_of(changed)
    changes = [
        (first + at, number, new.entity, key, write_json(current[key].content) if key in current else None, after)
        for at, (key, after) in enumerate(texts.items())
    ]
    session.execute_many(
        f"INSERT INTO {CHANGES} (id, batch, entity, key, before, after) VALUES (?, ?, ?, ?, ?, ?)", changes
    )
    fault("forms.changes")
    gone = [(new.entity, key) for key, after in changed.items() if after is None]
    session.execute_many(f"DELETE FROM {ROWS} WHERE entity = ? AND key = ?", gone)
    fault("forms.deletes")
    kept = [
        (new.entity, key, version, int(any(not (changed[key] or {}).get(name) for name in required)), after)
        for version, _, _, key, _, after in changes
        if after is not None
    ]
    session.execute_many(
        f"INSERT INTO {ROWS} AS r (entity, key, version, waits, content) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (entity, key) DO UPDATE SET version = excluded.version, waits = excluded.waits,"
        " content = excluded.content",
        kept,
    )
    fault("forms.rows")
    return number, at


def require_words(entity: Entity, who: str, why: str) -> None:
    """Raise E891 unless a person and a reason are given that can be stored."""
    if not who.strip() or not why.strip() or len(why) > _MOST_WHY or NOT_STORABLE.search(who + why):
        raise WaterclockError(
            "E891",
            "a change of master data needs a person and a reason",
            where=entity.table,
            why=f"both are stored with it; a reason has at most {_MOST_WHY} characters of UTF-8",
            fix="state why the rows change",
        )


def _require_distinct_keys(entity: Entity, edits: Sequence[Edit]) -> dict[str, Edit]:
    by_key = {key_text(edit.key): edit for edit in edits}
    if len(edits) > MOST_EDITS or len(by_key) < len(edits) or any(not all(edit.key) for edit in edits):
        raise WaterclockError(
            "E891",
            f"these rows of {entity.table} cannot be one batch",
            where=entity.table,
            why=f"a batch has at most {MOST_EDITS} rows, each with a KEY, and no KEY twice",
            fix="correct the keys, or split the rows",
        )
    return by_key


def _conflict_error(entity: Entity, conflicts: Sequence[Conflict]) -> EditConflictError:
    first = key_text(conflicts[0].edit.key)
    more = f" and {len(conflicts) - 1} more" if len(conflicts) > 1 else ""
    error = EditConflictError(
        "E892",
        f"{first}{more} of {entity.table} changed since it was read",
        where=entity.table,
        why="another person saved it meanwhile; nothing of this batch was saved",
        fix="look at the current rows, then save again",
    )
    error.conflicts = tuple(conflicts)
    return error


def _changed_key_error(entity: Entity, known: Sequence[str]) -> WaterclockError:
    own = ", ".join(field.name for field in entity.keys)
    return WaterclockError(
        "E893",
        f"the KEY of {entity.table} is {own}, and its rows are stored by {', '.join(known)}",
        where=entity.table,
        why="the history of a row is found by its KEY",
        fix="restore the KEY; or collect from a new form, and import the rows that `waterclock edit export` writes",
    )
