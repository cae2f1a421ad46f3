"""Erases the rows of persons from the history of a form, its current rows and its hints.

A version of a row with a person's value becomes a version in which the row did not exist: `before` or `after` of its
changes is emptied, and a change that had no other version also loses its key. The changes keep their numbers, so no
number is ever used again, and editors who saw an erased version have a conflict. Rows of open and decided proposals
with a person's value are deleted. Reasons and users that quote a value are redacted. Triggers keep all other processes
from changing history; this module disables them for one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from waterclock.connectors.forms.database import (
    BATCHES,
    CHANGES,
    PREFIX,
    PROPOSALS,
    PROPOSED,
    ROWS,
    FormsDatabase,
    FormsSession,
)
from waterclock.connectors.original_erasure import OriginalErasure, Subjects
from waterclock.connectors.sqlite.database import SqliteFile
from waterclock.faults import fault
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.storage.search.byte_search import ByteSearch

HISTORY = "history"
"""The kind of original that a form has."""

_ROWS_AT_ONCE = 1000
_GUARDS = {
    BATCHES: f"{BATCHES}_kept",
    CHANGES: f"{CHANGES}_kept",
    ROWS: f"{ROWS}_deleted",
    PROPOSALS: f"{PROPOSALS}_kept",
    PROPOSED: f"{PROPOSED}_kept",
}
"""The triggers of PostgreSQL that keep rows, by their table."""
_WORDS = {BATCHES: ("who", "why", "approved_by"), PROPOSALS: ("who", "why", "decided_by", "decided_why")}


def erase_persons(
    database: FormsDatabase, unit: Unit, subjects: Subjects, *, is_dry_run: bool
) -> Iterator[OriginalErasure]:
    """Remove all versions of persons' rows from a form in one transaction, and from the free space of its database.

    Yields one result, whose rows are changes. It may be repeated. Cost: a read of the form's history; then, even if no
    rows were found, the tables are written anew, because a killed erasure may have left rows in their free space.
    Raises E811 (transient) if another process keeps the tables, or older versions of their rows, in use.
    """
    if not database.exists:
        return
    if is_dry_run:
        with database.open_for_reading(str(unit)) as session:
            rows, removed = _count_changes(session, unit.path, subjects)
    else:
        with database.open_for_writing(str(unit)) as session, _history_unlocked(session):
            rows, removed = _erase_changes(session, unit.path, subjects)
            _erase_rows(session, unit.path, subjects)
            removed += _erase_proposed(session, unit.path, subjects)
            _redact_words(session, unit.path, subjects)
            fault("forms.erased")
        fault("forms.erasure_committed")
        if isinstance(database.database, SqliteFile):
            database.database.compact(str(unit))
        else:
            database.database.compact(str(unit), list(_GUARDS))
    yield OriginalErasure(f"{database.name}: {unit.path}", rows, removed, kind=HISTORY)


def search_database(database: FormsDatabase, unit: Unit, search: ByteSearch) -> None:
    """Search the file of a database, or the rows of a server's tables, for values of persons."""
    if not database.exists:
        return
    if isinstance(database.database, SqliteFile):
        search.search_below(database.database.path)
        return
    with database.open_for_reading(str(unit)) as session:
        for table, key in _SEARCHED:
            names = [name for (name,) in session.rows_of(_COLUMNS_OF, (table,))]
            listed = ", ".join(f"{name}::text AS text_of_{name}" for name in names)
            for row in _pages(session, f"SELECT {key}, {listed} FROM {table}", key):
                for name, value in zip(names, row[-len(names) :], strict=True):
                    if value is not None:
                        search.search_value(f"{database.name}: {table}", f"column {name}", name, value.encode())


_SEARCHED = (
    (BATCHES, "id"),
    (CHANGES, "id"),
    (ROWS, "entity, key"),
    (PROPOSALS, "id"),
    (PROPOSED, "proposal, key"),
)
_COLUMNS_OF = (
    "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped"
    " ORDER BY attnum"
)


def _pages(session: FormsSession, sql: str, key: str, condition: str = "", values: Sequence[Any] = ()) -> Iterator[Any]:
    """Yield rows in the order of their key, some at a time. The first columns of `sql` are those of `key`."""
    width, conditions = key.count(",") + 1, [condition] if condition else []
    after: tuple[Any, ...] = ()
    while True:
        past = [f"({key}) > ({', '.join('?' * width)})"] if after else []
        where = f" WHERE {' AND '.join([*conditions, *past])}" if conditions or past else ""
        page = session.rows_of(f"{sql}{where} ORDER BY {key} LIMIT {_ROWS_AT_ONCE}", (*values, *after))
        yield from page
        if len(page) < _ROWS_AT_ONCE:
            return
        after = tuple(page[-1][:width])


def _iterate_changes(session: FormsSession, entity: str) -> Iterator[tuple[int, str, str | None, str | None]]:
    yield from _pages(session, f"SELECT id, key, before, after FROM {CHANGES}", "id", "entity = ?", (entity,))


def _is_of_person(text: str | None, subjects: Subjects) -> bool:
    """Return whether a stored row has a person's value in a column of the subject."""
    return text is not None and any(
        column is not None and value is not None and subjects.is_erased(column, value)
        for name, value in json.loads(text).items()
        for column in (subjects.column_of(name),)
    )


def _count_changes(session: FormsSession, entity: str, subjects: Subjects) -> tuple[int, int]:
    rows = removed = 0
    for _, _, before, after in _iterate_changes(session, entity):
        rows += 1
        removed += _is_of_person(before, subjects) or _is_of_person(after, subjects)
    for (hints,) in session.rows_of(f"SELECT hints FROM {ROWS} WHERE entity = ? AND hints IS NOT NULL", (entity,)):
        removed += _is_of_person(hints, subjects)
    return rows, removed + len(_proposed_of_persons(session, entity, subjects))


def _erase_changes(session: FormsSession, entity: str, subjects: Subjects) -> tuple[int, int]:
    rows = removed = 0
    update = f"UPDATE {CHANGES} SET key = ?, before = ?, after = ? WHERE id = ?"
    waiting = []
    for number, key, before, after in _iterate_changes(session, entity):
        rows += 1
        kept = tuple(None if _is_of_person(text, subjects) else text for text in (before, after))
        if kept != (before, after):
            removed += 1
            waiting.append(("" if kept == (None, None) else key, *kept, number))
        if len(waiting) >= _ROWS_AT_ONCE:
            session.execute_many(update, waiting)
            waiting = []
    session.execute_many(update, waiting)
    return rows, removed


def _erase_rows(session: FormsSession, entity: str, subjects: Subjects) -> None:
    """Delete current rows of persons, and hints with their values."""
    sql = f"SELECT key, content, hints FROM {ROWS}"
    gone, hinted = [], []
    for key, content, hints in _pages(session, sql, "key", "entity = ?", (entity,)):
        if _is_of_person(content, subjects):
            gone.append((entity, key))
        elif _is_of_person(hints, subjects):
            hinted.append((entity, key))
    session.execute_many(f"DELETE FROM {ROWS} WHERE entity = ? AND key = ?", gone)
    session.execute_many(f"UPDATE {ROWS} SET hints = NULL WHERE entity = ? AND key = ?", hinted)


def _proposed_of_persons(session: FormsSession, entity: str, subjects: Subjects) -> list[tuple[int, str]]:
    """Return the number and the key of each row of a proposal that has a person's value, before or after."""
    sql = f"SELECT p.proposal, p.key, p.before, p.after FROM {PROPOSED} AS p JOIN {PROPOSALS} AS o ON o.id = p.proposal"
    return [
        (number, key)
        for number, key, before, after in _pages(session, sql, "p.proposal, p.key", "o.entity = ?", (entity,))
        if _is_of_person(before, subjects) or _is_of_person(after, subjects)
    ]


def _erase_proposed(session: FormsSession, entity: str, subjects: Subjects) -> int:
    gone = _proposed_of_persons(session, entity, subjects)
    session.execute_many(f"DELETE FROM {PROPOSED} WHERE proposal = ? AND key = ?", gone)
    return len(gone)


def _redact_words(session: FormsSession, entity: str, subjects: Subjects) -> None:
    """Redact names and reasons that quote a value of a person."""
    for table, columns in _WORDS.items():
        found = []
        for number, *texts in _pages(
            session, f"SELECT id, {', '.join(columns)} FROM {table}", "id", "entity = ?", (entity,)
        ):
            redacted = [None if text is None else subjects.redact(text) for text in texts]
            if redacted != texts:
                found.append((*redacted, number))
        values = ", ".join(f"{name} = ?" for name in columns)
        session.execute_many(f"UPDATE {table} SET {values} WHERE id = ?", found)


@contextmanager
def _history_unlocked(session: FormsSession) -> Iterator[None]:
    """Disable the triggers that keep the history, within the open transaction, which locks out other writers."""
    if session.is_server:
        for table, trigger in _GUARDS.items():
            session.execute(f"ALTER TABLE {table} DISABLE TRIGGER {trigger}")
        yield
        for table, trigger in _GUARDS.items():
            session.execute(f"ALTER TABLE {table} ENABLE TRIGGER {trigger}")
        return
    guards = session.rows_of(
        f"SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name LIKE '{PREFIX}_%'"
    )
    for name, _ in guards:
        session.execute(f"DROP TRIGGER {name}")
    yield
    for _, sql in guards:
        session.execute(sql)
