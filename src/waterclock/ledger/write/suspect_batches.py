"""Marks done batches whose inputs have changed since they were claimed.

A batch is suspect if the content of an input of its current revision differs from the content at its claim. The flag is
updated as data is recorded: each change of an interval marks the interval's readers. Those that were marked before are
compared again, since a second change may have undone the first. Content changes in no other way, so the flag is exact
at any time.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from datetime import datetime

import sqlalchemy as sa

from waterclock.flow.enums import Kind
from waterclock.ledger.read.content import contents_of
from waterclock.ledger.read.inputs import IS_CURRENT, build_overlap_values, extend_to_readers
from waterclock.ledger.store.database import Write
from waterclock.ledger.store.rows import chunks_of
from waterclock.ledger.store.schema import IS_SUSPECT, AnyRow, batches, inputs, tables
from waterclock.timelabel.intervals import IntervalSet

Key = tuple[str, datetime]
_CHUNK = 500

_READERS = extend_to_readers(
    sa.select(inputs.c.reader, inputs.c.label, batches.c.is_suspect).join(batches, IS_CURRENT), distinct=True
)
_OUTDATED = (
    sa.select(inputs, tables.c.mode)
    .join(tables, tables.c.name == inputs.c.table_name)
    .where(inputs.c.claim == sa.bindparam("number_"), tables.c.changes != inputs.c.changes)
)
_READ = (
    sa.select(inputs, tables.c.mode)
    .join(batches, IS_CURRENT)
    .join(tables, tables.c.name == inputs.c.table_name)
    .where(batches.c.table_name == sa.bindparam("of"), batches.c.label.in_(sa.bindparam("labels", expanding=True)))
)
_SUSPECTS = sa.select(batches.c.table_name, batches.c.label).where(IS_SUSPECT)
_PUBLISHES = sa.select(tables.c.name).where(tables.c.kind == Kind.PUBLISH.value)
_SET_CONTENT = (
    sa.update(inputs)
    .where(
        inputs.c.claim == sa.bindparam("by"),
        inputs.c.label == sa.bindparam("at"),
        inputs.c.position == sa.bindparam("place"),
    )
    .values(content=sa.bindparam("now"))
)
_MARK = (
    sa.update(batches)
    .where(batches.c.table_name == sa.bindparam("of"), batches.c.label == sa.bindparam("at"))
    .values(is_suspect=sa.bindparam("suspect"))
)


def mark_readers(write: Write, table: str, changed: IntervalSet, *, must_compare: bool = False) -> int:
    """Mark as suspect the done batches that read one of the `changed` intervals. Return how many are newly marked.

    With `must_compare`, `changed` may also contain unchanged intervals: a batch is marked only if its inputs differ.
    """
    found: dict[Key, bool] = {}
    for low, high in changed:
        for row in write.execute(_READERS, build_overlap_values([table], low, high)):
            found[row.reader, row.label] = row.is_suspect
    changed_readers = [] if must_compare else [key for key, is_suspect in found.items() if not is_suspect]
    _mark(write, changed_readers, suspect=True)
    return len(changed_readers) + _compare_inputs(write, {key: of for key, of in found.items() if must_compare or of})


def mark_outdated(write: Write, table: str, claim: int, labels: Iterable[datetime]) -> int:
    """Mark those labels of a just recorded claim whose inputs changed since the claim. Return how many."""
    wanted = set(labels)
    rows = [row for row in write.execute(_OUTDATED, {"number_": claim}).all() if row.label in wanted]
    outdated = {(table, row.label) for row in _find_changed_inputs(write.connection, rows)}
    _mark(write, outdated, suspect=True)
    return len(outdated)


def list_suspects(write: Write) -> set[Key]:
    """Return the batches that are suspect now."""
    return {(row.table_name, row.label) for row in write.execute(_SUSPECTS)}


def accept_changes(write: Write, table: str, changed: IntervalSet, suspects_before: Container[Key]) -> int:
    """Record the current content of a table as the input of the batches that read it, so that none of them is stale.

    `changed` are the intervals that changed within this transaction. Batches that were suspect before stay suspect, and
    deliveries become suspect, so that the next run delivers again. Return the number of batches whose inputs were
    recorded anew.
    """
    publishes = set(write.execute(_PUBLISHES).scalars())
    found: dict[Key, bool] = {}
    for low, high in changed:
        for row in write.execute(_READERS, build_overlap_values([table], low, high)):
            key = (row.reader, row.label)
            if row.is_suspect and key not in suspects_before and row.reader not in publishes:
                found[key] = True
    by_reader: dict[str, list[datetime]] = {}
    for reader, label in found:
        by_reader.setdefault(reader, []).append(label)
    for reader, labels in by_reader.items():
        for start in range(0, len(labels), _CHUNK):
            rows = write.execute(_READ, {"of": reader, "labels": labels[start : start + _CHUNK]}).all()
            rows = [row for row in rows if row.table_name == table]
            modes = {row.table_name: row.mode for row in rows}
            now = contents_of(write.connection, modes, ((table, row.low, row.high) for row in rows))
            values = [
                {"by": row.claim, "at": row.label, "place": row.position, "now": now[table, row.low, row.high]}
                for row in rows
            ]
            write.execute_each(_SET_CONTENT, values)
    _compare_inputs(write, found)
    return len(found)


def _compare_inputs(write: Write, flags: Mapping[Key, bool]) -> int:
    """Set the flags of batches by comparing their inputs with the current content. Return how many are newly marked."""
    by_table: dict[str, list[datetime]] = {}
    for table, label in flags:
        by_table.setdefault(table, []).append(label)
    newly_marked = 0
    for table, labels in by_table.items():
        chunks = chunks_of(labels, _CHUNK)
        rows = [row for chunk in chunks for row in write.execute(_READ, {"of": table, "labels": chunk})]
        differ = {(table, row.label) for row in _find_changed_inputs(write.connection, rows)}
        new = [key for key in differ if not flags[key]]
        _mark(write, new, suspect=True)
        _mark(write, [(table, label) for label in labels if (table, label) not in differ], suspect=False)
        newly_marked += len(new)
    return newly_marked


def _find_changed_inputs(connection: sa.Connection, rows: Iterable[AnyRow]) -> list[AnyRow]:
    read = list(rows)
    modes: Mapping[str, str] = {row.table_name: row.mode for row in read}
    now = contents_of(connection, modes, ((row.table_name, row.low, row.high) for row in read))
    return [row for row in read if now[row.table_name, row.low, row.high] != row.content]


def _mark(write: Write, keys: Iterable[Key], *, suspect: bool) -> None:
    values = [{"of": table, "at": label, "suspect": suspect} for table, label in keys]
    if values:
        write.execute(_MARK, values)
