"""Finds labels whose two batches, of the two tables of APART, were made by different queries."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.audit_records import DECLARED
from waterclock.batches.code_pairs import CodePairs, DeclaredCode, PairedLabel
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
    sa.select(
        batches.c.label,
        batches.c.code.label("events"),
        _other.c.code.label("persons"),
        sa.and_(
            batches.c.status == BatchStatus.DONE.value,
            _other.c.status == BatchStatus.DONE.value,
            batches.c.requested.is_(None),
            _other.c.requested.is_(None),
        ).label("is_idle"),
    )
    .join(_other, sa.and_(_other.c.table_name == sa.bindparam("persons"), _other.c.label == batches.c.label))
    .where(
        batches.c.table_name == sa.bindparam("events"),
        batches.c.current_claim.is_not(None),
        _other.c.current_claim.is_not(None),
    )
    .order_by(batches.c.label)
)
_MADE_OF_LABELS = _MADE.where(batches.c.label.in_(sa.bindparam("labels", expanding=True)))


def code_pairs(database: LedgerDatabase, of_events: str, of_persons: str) -> CodePairs:
    """Return which codes of two tables belong to the same query."""
    with database.read() as connection:
        rows = connection.execute(_DECLARED, {"both": [of_events, of_persons]}).all()
    return CodePairs.from_history(
        DeclaredCode(row.at, row.table_name == of_persons, str(row.data["code"])) for row in rows
    )


def unpaired_codes(
    database: LedgerDatabase, of_events: str, of_persons: str, labels: Collection[datetime] | None = None
) -> tuple[PairedLabel, ...]:
    """Return the labels (all, or those among `labels`) that both tables have, made by different queries.

    Cost: the declarations of both tables; with batches of several codes, their labels as well.
    """
    pairs = code_pairs(database, of_events, of_persons)
    values = {"events": of_events, "persons": of_persons}
    with database.read() as connection:
        made = connection.execute(_CODES, {"both": [of_events, of_persons]}).all()
        if all(
            pairs.are_paired(one.code, other.code)
            for one in made
            for other in made
            if (one.table_name, other.table_name) == (of_events, of_persons)
        ):
            return ()
        statement = _MADE if labels is None else _MADE_OF_LABELS
        rows = connection.execute(statement, values if labels is None else values | {"labels": sorted(labels)}).all()
    return tuple(
        PairedLabel(row.label, row.events, row.persons, bool(row.is_idle))
        for row in rows
        if not pairs.are_paired(row.events, row.persons)
    )
