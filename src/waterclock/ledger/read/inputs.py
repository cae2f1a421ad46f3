"""Reads the inputs of batches, and the batches that read an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import FOREVER
from waterclock.batches.records import Input
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import IS_LONG, IS_OPEN, IS_SHORT, LONG, AnyRow, batches, claims, inputs

IS_CURRENT = sa.and_(
    batches.c.table_name == inputs.c.reader,
    batches.c.label == inputs.c.label,
    batches.c.current_claim == inputs.c.claim,
)
"""The join condition of an input with its batch: the input belongs to the batch's current revision."""
_OVERLAPS = (
    inputs.c.table_name.in_(sa.bindparam("names", expanding=True)),
    inputs.c.high > sa.bindparam("low"),
    inputs.c.low < sa.bindparam("high"),
)
_INPUTS = sa.select(inputs).where(inputs.c.claim == sa.bindparam("number_")).order_by(inputs.c.label, inputs.c.position)
_STARTING = (
    inputs.c.table_name == sa.bindparam("of"),
    inputs.c.low > sa.bindparam("after"),
    inputs.c.low <= sa.bindparam("until"),
)
_BEGINNING = sa.union(
    sa.select(inputs.c.claim, inputs.c.label).join(batches, IS_CURRENT).where(*_STARTING),
    sa.select(inputs.c.claim, inputs.c.label)
    .join(claims, claims.c.number == inputs.c.claim)
    .where(IS_OPEN, *_STARTING),
).subquery()
_OF_BEGINNING = (
    sa.select(inputs)
    .join(_BEGINNING, sa.and_(_BEGINNING.c.claim == inputs.c.claim, _BEGINNING.c.label == inputs.c.label))
    .order_by(inputs.c.reader, inputs.c.label, inputs.c.position)
)


def read_inputs(connection: sa.Connection, number: int) -> Mapping[datetime, tuple[Input, ...]]:
    """Return the inputs of a claim by label, in the order of the reads."""
    read: dict[datetime, list[Input]] = {}
    for row in connection.execute(_INPUTS, {"number_": number}):
        read.setdefault(row.label, []).append(input_of(row))
    return {label: tuple(reads) for label, reads in read.items()}


def find_reads_starting_within(
    database: LedgerDatabase, table: str, after: datetime, until: datetime
) -> dict[tuple[str, datetime], tuple[Input, ...]]:
    """Return the batches whose read of `table` starts in `(after, until]`, each with all of its inputs.

    Batches that are being made are included: an open claim has its inputs already.
    """
    found: dict[tuple[str, datetime], list[Input]] = {}
    with database.read() as connection:
        for row in connection.execute(_OF_BEGINNING, {"of": table, "after": after, "until": until}):
            found.setdefault((row.reader, row.label), []).append(input_of(row))
    return {batch: tuple(reads) for batch, reads in found.items()}


def input_of(row: AnyRow) -> Input:
    """Build an `Input` from a row of the database table `inputs`; its `changes` is None."""
    return Input(row.table_name, row.read, row.kind, row.low, row.high, row.location, row.version, row.content)


def extend_to_readers(query: sa.Select[Any], *, distinct: bool = False) -> sa.CompoundSelect[Any]:
    """Restrict a query of `inputs` to the reads that overlap an interval, without a scan of newer reads.

    `build_overlap_values` returns the parameters of the result. The index is sorted by the ends of reads. A short read
    that overlaps the interval ends soon after it, so the scan stops there. The few long reads have their own index.
    """
    short = query.where(*_OVERLAPS, inputs.c.high <= sa.bindparam("reach"), IS_SHORT)
    return (sa.union if distinct else sa.union_all)(short, query.where(*_OVERLAPS, IS_LONG))


def any_readers() -> sa.ColumnElement[bool]:
    """Build the condition that any revision, current or not, has read an interval.

    `build_overlap_values` returns its parameters.
    """
    short = sa.exists().where(*_OVERLAPS, inputs.c.high <= sa.bindparam("reach"), IS_SHORT)
    return sa.or_(short, sa.exists().where(*_OVERLAPS, IS_LONG))


def build_overlap_values(tables: Sequence[str], low: datetime, high: datetime) -> dict[str, Any]:
    """Build the bind parameters of `extend_to_readers` and `any_readers`.

    They select batches that read any of these tables in [low, high).
    """
    longest = timedelta(microseconds=LONG)
    reach = high + longest if high < FOREVER - longest else FOREVER
    return {"names": tables, "low": low, "high": high, "reach": reach}
