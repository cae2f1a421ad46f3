"""Reads all committed revisions of labels with their code and inputs, to find those that can be adopted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.earlier_revisions import EarlierRevision
from waterclock.batches.records import Input
from waterclock.flow.enums import Mode
from waterclock.ledger.read.content import weight
from waterclock.ledger.read.inputs import input_of
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.rows import chunks_of, columns_of, record_of
from waterclock.ledger.store.schema import AnyRow, batches, claims, inputs, revisions, tables

_LABELS: sa.BindParameter[datetime] = sa.bindparam("labels", expanding=True)
_REVISIONS = (
    sa.select(
        *columns_of(
            revisions, "label claim version rows digest slice_path stands_from end recorded_at measures source"
        ),
        claims.c.code,
        tables.c.mode,
        *columns_of(batches, "current_claim hash_high hash_low"),
    )
    .select_from(
        revisions.join(claims, claims.c.number == revisions.c.claim)
        .join(tables, tables.c.name == revisions.c.table_name)
        .join(batches, sa.and_(batches.c.table_name == revisions.c.table_name, batches.c.label == revisions.c.label))
    )
    .where(revisions.c.table_name == sa.bindparam("of"), revisions.c.label.in_(_LABELS))
    .order_by(revisions.c.label, revisions.c.version, revisions.c.recorded_sequence)
)
_INPUTS = (
    sa.select(inputs)
    .where(inputs.c.claim.in_(sa.bindparam("numbers", expanding=True)), inputs.c.label.in_(_LABELS))
    .where(inputs.c.reader == sa.bindparam("of"))
    .order_by(inputs.c.claim, inputs.c.label, inputs.c.position)
)
_CHUNK = 200


def list_earlier_revisions(
    database: LedgerDatabase, table: str, labels: Collection[datetime]
) -> dict[datetime, tuple[EarlierRevision, ...]]:
    """Map labels to their committed revisions, oldest first, the current one included. Labels without one are left out.

    Cost: two queries for each 200 labels, and some 30 µs for each revision.
    """
    found: defaultdict[datetime, list[EarlierRevision]] = defaultdict(list)
    wanted = sorted(set(labels))
    with database.read() as connection:
        for chunk in chunks_of(wanted, _CHUNK):
            rows = connection.execute(_REVISIONS, {"of": table, "labels": chunk}).all()
            read = _read_inputs(connection, table, chunk, sorted({row.claim for row in rows}))
            for row in rows:
                found[row.label].append(_build_revision(row, read.get((row.claim, row.label), ())))
    return {label: tuple(made) for label, made in found.items()}


def _read_inputs(
    connection: sa.Connection, table: str, labels: Sequence[datetime], numbers: Sequence[int]
) -> Mapping[tuple[int, datetime], tuple[Input, ...]]:
    found: defaultdict[tuple[int, datetime], list[Input]] = defaultdict(list)
    for start in range(0, len(numbers), _CHUNK):
        values = {"of": table, "labels": labels, "numbers": numbers[start : start + _CHUNK]}
        for row in connection.execute(_INPUTS, values):
            found[row.claim, row.label].append(input_of(row))
    return {key: tuple(reads) for key, reads in found.items()}


def _build_revision(row: AnyRow, read: tuple[Input, ...]) -> EarlierRevision:
    is_current = row.current_claim == row.claim
    ends_keys = row.mode == Mode.TEMPORAL and row.stands_from is not None
    own = None if row.digest is None else weight(row.label, row.digest, row.rows, row.claim, ends_keys=ends_keys)
    return record_of(
        EarlierRevision,
        row,
        inputs=read,
        is_current=is_current,
        weight=(row.hash_high, row.hash_low) if is_current else own,
    )
