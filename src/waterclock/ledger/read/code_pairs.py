"""Finds labels whose two batches, of the two tables of APART, were made by different queries."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.audit_records import DECLARED
from waterclock.batches.code_pairs import CodePairs, DeclaredCode
from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import batches, codes, events

_BOTH: sa.BindParameter[list[str]] = sa.bindparam("both", expanding=True)
_DECLARED = (
    sa.select(events.c.at, events.c.table_name, events.c.data)
    .where(events.c.table_name.in_(_BOTH), events.c.label.is_(None), events.c.kind == DECLARED)
    .order_by(events.c.id)
)
_CODES = sa.select(codes.c.table_name, codes.c.code).where(codes.c.table_name.in_(_BOTH), codes.c.labels > 0)
_other = batches.alias()
_MADE = (
    sa.select(batches.c.label, batches.c.code.label("events"), _other.c.code.label("persons"))
    .join(_other, sa.and_(_other.c.table_name == sa.bindparam("persons"), _other.c.label == batches.c.label))
    .where(
        batches.c.table_name == sa.bindparam("events"),
        batches.c.current_claim.is_not(None),
        _other.c.current_claim.is_not(None),
    )
    .order_by(batches.c.label)
)
_IDLE = (
    sa.select(batches.c.label, batches.c.code)
    .where(
        batches.c.table_name == sa.bindparam("of"),
        batches.c.label.in_(sa.bindparam("labels", expanding=True)),
        batches.c.status == BatchStatus.DONE.value,
        batches.c.current_claim.is_not(None),
        batches.c.requested.is_(None),
    )
    .order_by(batches.c.label)
)


def code_pairs(database: LedgerDatabase, of_events: str, of_persons: str) -> CodePairs:
    """Return which codes of two tables belong to the same query."""
    with database.read() as connection:
        rows = connection.execute(_DECLARED, {"both": [of_events, of_persons]}).all()
    return CodePairs.from_history(
        DeclaredCode(row.at, row.table_name == of_persons, str(row.data["code"])) for row in rows
    )


def unpaired_labels(database: LedgerDatabase, of_events: str, of_persons: str) -> tuple[datetime, ...]:
    """Return the labels that both tables have, made by different queries.

    Cost: the declarations of both tables; with batches of several codes, their labels as well.
    """
    pairs = code_pairs(database, of_events, of_persons)
    with database.read() as connection:
        made = connection.execute(_CODES, {"both": [of_events, of_persons]}).all()
        if all(
            pairs.are_paired(one.code, other.code)
            for one in made
            for other in made
            if (one.table_name, other.table_name) == (of_events, of_persons)
        ):
            return ()
        rows = connection.execute(_MADE, {"events": of_events, "persons": of_persons}).all()
    return tuple(row.label for row in rows if not pairs.are_paired(row.events, row.persons))


def idle_labels_of_other_query(
    database: LedgerDatabase, of_events: str, of_persons: str, code: str, labels: Collection[datetime], *, by: str
) -> tuple[datetime, ...]:
    """Return those of the labels that the other table than `by` has, made by another query than `code` of `by`.

    Labels that are being made, failed, or are requested already, are left out.
    """
    pairs, is_of_persons = code_pairs(database, of_events, of_persons), by == of_persons
    values = {"of": of_events if is_of_persons else of_persons, "labels": sorted(labels)}
    with database.read() as connection:
        rows = connection.execute(_IDLE, values).all()
    return tuple(
        row.label
        for row in rows
        if not (pairs.are_paired(row.code, code) if is_of_persons else pairs.are_paired(code, row.code))
    )
