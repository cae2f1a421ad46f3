"""Reads all current revisions of a table with their inputs, which a rebuild of all tables copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.audit_records import BEGUN_ANEW
from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.batches.records import BatchResult, Input
from waterclock.ledger.read.inputs import IS_CURRENT, input_of
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.rows import record_of
from waterclock.ledger.store.schema import batches, events, inputs, made_by_claim, revisions

_MADE = (
    sa.select(revisions, batches.c.code)
    .join(batches, made_by_claim(revisions, batches, batches.c.current_claim))
    .where(revisions.c.table_name == sa.bindparam("of"))
    .order_by(revisions.c.label)
)
_READ = (
    sa.select(inputs)
    .join(batches, IS_CURRENT)
    .where(inputs.c.reader == sa.bindparam("of"))
    .order_by(inputs.c.label, inputs.c.position)
)
_SKIPPED = (
    sa.select(batches.c.label, batches.c.end)
    .where(batches.c.table_name == sa.bindparam("of"), batches.c.status == BatchStatus.SKIPPED.value)
    .where(batches.c.end.is_not(None))
    .order_by(batches.c.label)
)
_RECUTS = sa.select(events.c.at, events.c.kind, events.c.data).where(
    events.c.table_name == sa.bindparam("of"), events.c.label.is_(None), events.c.kind.in_(BEGUN_ANEW)
)


@dataclass(frozen=True, slots=True)
class CurrentRevision:
    """The current revision of a label: its result, its claim and its code."""

    result: BatchResult
    claim: int
    code: str


def current_of(database: LedgerDatabase, name: str) -> list[CurrentRevision]:
    """Return the current revisions of a table, by label. Cost: 20 µs each."""
    with database.read() as connection:
        return [
            CurrentRevision(record_of(BatchResult, row), row.claim, row.code or "")
            for row in connection.execute(_MADE, {"of": name})
        ]


def read_inputs_by_label(database: LedgerDatabase, name: str) -> Mapping[datetime, tuple[Input, ...]]:
    """Return the inputs of a table's current revisions, by label, in the order of their reads."""
    found: defaultdict[datetime, list[Input]] = defaultdict(list)
    with database.read() as connection:
        for row in connection.execute(_READ, {"of": name}):
            found[row.label].append(input_of(row))
    return {label: tuple(reads) for label, reads in found.items()}


def list_skipped_windows(database: LedgerDatabase, name: str) -> list[tuple[datetime, datetime]]:
    """Return the windows of a table that a user skipped."""
    with database.read() as connection:
        return [(row.label, row.end) for row in connection.execute(_SKIPPED, {"of": name})]


def emptying_versions_of(database: LedgerDatabase, name: str) -> Mapping[int, datetime]:
    """Map each version at which a table was emptied, by a reset or a change of its windows, to its instant."""
    with database.read() as connection:
        rows = connection.execute(_RECUTS, {"of": name})
        return {int(row.data["version"]): row.at for row in rows if row.data.get("is_recut")}


def list_emptying_claims(database: LedgerDatabase, name: str) -> list[tuple[int, datetime]]:
    """Return the claims that emptied a table (reset or changed windows) and their instants, oldest first.

    Revisions of earlier claims are not current any more. Claim 0: a publish was declared again, without a claim.
    """
    with database.read() as connection:
        rows = connection.execute(_RECUTS, {"of": name})
        return sorted((int(row.data["claim"]), row.at) for row in rows if row.data.get("is_recut"))
