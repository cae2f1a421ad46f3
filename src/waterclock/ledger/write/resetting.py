"""Resets a table in the ledger: its batches are deleted, its revisions and events stay.

Between the start and the end of a reset the table is paused, so that no batch is claimed while its log is emptied. A
reset that is killed in between is finished by the next one of the same table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.audit_records import RESET
from waterclock.flow.declarations import Table
from waterclock.ledger.read.signatures import has_batches, signature_differences, signature_of
from waterclock.ledger.store.database import LedgerDatabase, Write
from waterclock.ledger.store.schema import AnyRow, tables
from waterclock.ledger.write.emptying import empty_table, request_recompute
from waterclock.ledger.write.pauses import RESET as RESETTING
from waterclock.ledger.write.pauses import end_hold, hold, split_hold_reason
from waterclock.ledger.write.rebuild_all_lock import require_no_rebuild
from waterclock.ledger.write.table_rebuilds import REDECLARE, find_row, refuse_open

_TABLES = sa.select(tables)
_TABLE = _TABLES.where(tables.c.name == sa.bindparam("of"))
_SET_START = sa.update(tables).where(tables.c.name == sa.bindparam("of")).values(start=sa.bindparam("at"))


@dataclass(frozen=True, slots=True)
class EmptyingCommit:
    """The commit that removed all files from a table: its version, and its claim."""

    version: int
    claim: int


def is_resettable(database: LedgerDatabase, name: str) -> bool:
    """Return whether a table has batches, or has an unfinished reset or rebuild."""
    with database.read() as connection:
        row = connection.execute(_TABLE, {"of": name}).first()
        return row is not None and (split_hold_reason(row.paused_why)[1] is not None or has_batches(connection, name))


def begin_reset(database: LedgerDatabase, name: str, *, who: str) -> tuple[int, int | None]:
    """Begin a reset: pause the table, and return the claims of this reset and of an unfinished earlier one, or None.

    The caller makes sure that the earlier claim never commits.

    Raises E407 if a batch is running, E412 for an unknown table, E644 while all tables are rebuilt.
    """
    with database.write(claims=True) as write:
        return write.last_claim, hold(write, _find_resettable_row(write, name), write.last_claim, RESETTING, who=who)


def end_reset(
    database: LedgerDatabase,
    table: Table,
    emptied: EmptyingCommit,
    *,
    start: datetime | None,
    who: str,
    why: str = "",
    asked_again: Iterable[str] = (),
) -> None:
    """Record that a table was emptied, and that its current declaration applies.

    Its readers become due if their inputs differ. All batches of the tables in `asked_again`, done or being made, are
    made again. Raises the errors of `begin_reset`, and E411 if another reset of the table took this one over.
    """
    version, claim = emptied.version, emptied.claim
    with database.write() as write:
        row = _find_resettable_row(write, table.name)
        end_hold(write, row, claim, who=who)
        changed = sorted(what for what, _, _ in signature_differences(row, table))
        empty_table(write, table.name, claim)
        write.execute(REDECLARE, {"of": table.name, "version": version} | signature_of(table))
        write.execute(_SET_START, {"of": table.name, "at": start})
        request_recompute(write, asked_again)
        data = {"version": version, "claim": claim, "is_recut": True, "changed": changed, "why": why}
        write.log(RESET, who=who, table=table.name, data=data)


def _find_resettable_row(write: Write, name: str) -> AnyRow:
    require_no_rebuild(write, name)
    refuse_open(write, name)
    return find_row(write, name)
