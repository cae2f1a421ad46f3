"""Removes a table's batches from the ledger if its labels change their meaning. Revisions and events stay."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, RECOMPUTE, BatchStatus
from waterclock.ledger.store.database import Write
from waterclock.ledger.store.schema import batches, closings, codes, coverage, items, tables, versions
from waterclock.ledger.write.coverage import cover
from waterclock.ledger.write.suspect_batches import mark_readers
from waterclock.timelabel.intervals import IntervalSet

# the reasons to restate in claims of a rebuild; the second one replaces all data of the table
REMADE, RECUT = "rebuild --all", "rebuild --all, of new windows"

_EMPTY = (
    sa.update(tables)
    .where(tables.c.name == sa.bindparam("of"))
    .values(head_label=None, sum_high=0, sum_low=0, dropped_before=None, changes=tables.c.changes + 1)
)
_FORGET = {
    each.name: sa.delete(each).where(each.c.table_name == sa.bindparam("of"))
    for each in (batches, coverage, codes, items, closings)
}
_is_skipped = batches.c.status == BatchStatus.SKIPPED.value
_FORGET_ITEMS = _FORGET[items.name].where(items.c.label >= sa.bindparam("since"))
_FORGET_BUT_SKIPPED = _FORGET[batches.name].where(sa.or_(batches.c.status.is_(None), ~_is_skipped))
_SKIPPED = sa.select(batches.c.label, batches.c.end).where(batches.c.table_name == sa.bindparam("of"), _is_skipped)
_FORGET_VERSIONS = (
    sa.update(versions)
    .where(versions.c.table_name == sa.bindparam("of"), versions.c.dropped_by.is_(None))
    .values(dropped_by=sa.bindparam("claim_"))
)


_REQUEST_RECOMPUTE = (
    sa.update(batches)
    .where(batches.c.table_name == sa.bindparam("of"))
    .where(sa.or_(batches.c.current_claim.is_not(None), batches.c.status == BatchStatus.RUNNING.value))
    .values(requested=RECOMPUTE, requested_sequence=sa.bindparam("then"))
)


def request_recompute(write: Write, names: Iterable[str]) -> None:
    """Request that all done or running batches of some tables are made again, even with unchanged inputs."""
    for name in names:
        write.execute(_REQUEST_RECOMPUTE, {"of": name, "then": write.sequence})


def empty_table(
    write: Write, name: str, claim: int, *, keeps_skipped: bool = False, items_before: datetime = BEGINNING
) -> None:
    """Remove a table's batches from the ledger, since its labels change their meaning. Revisions and events stay.

    `keeps_skipped`: skipped batches stay skipped. Labels before `items_before` keep the source items that they own, so
    that no other label collects them again.
    """
    forget = _FORGET | ({batches.name: _FORGET_BUT_SKIPPED} if keeps_skipped else {})
    for statement in (forget | {items.name: _FORGET_ITEMS}).values():
        write.execute(statement, {"of": name, "since": items_before})
    if keeps_skipped:
        skipped = [(row.label, row.end) for row in write.execute(_SKIPPED, {"of": name})]
        cover(write.connection, name, IntervalSet.from_intervals(skipped))
    write.execute(_EMPTY, {"of": name})
    write.execute(_FORGET_VERSIONS, {"of": name, "claim_": claim})
    mark_readers(write, name, IntervalSet.from_intervals([(BEGINNING, FOREVER)]), must_compare=True)
