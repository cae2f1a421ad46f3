"""Records the declaration changes that only `rebuild` may make, once the table is rebuilt."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, OpenClaim
from waterclock.batches.records import Claim
from waterclock.flow.declarations import Flow, Table
from waterclock.ledger import ledger_errors
from waterclock.ledger.read.signatures import SIGNATURE, Difference, signature_differences, signature_of
from waterclock.ledger.store.database import LedgerDatabase, Write
from waterclock.ledger.store.schema import IS_OPEN, AnyRow, batches, claims, tables, versions
from waterclock.ledger.store.slice_weights import SET_SUMS
from waterclock.ledger.write.claims import restore_claim
from waterclock.ledger.write.committed_claims import CommittedClaim, record_drop
from waterclock.ledger.write.completion import record
from waterclock.ledger.write.pauses import REBUILD, end_hold, hold, require_no_holds, split_hold_reason
from waterclock.ledger.write.rebuild_all_lock import require_no_rebuild
from waterclock.ledger.write.suspect_batches import mark_readers
from waterclock.timelabel.intervals import IntervalSet

_TABLES = sa.select(tables)
_TABLE = _TABLES.where(tables.c.name == sa.bindparam("of"))
_NAMES = sa.select(tables.c.name)
_WITH_BATCHES = sa.select(batches.c.table_name).distinct()
_OPEN = sa.select(claims.c.number, claims.c.runner, claims.c.lease_until).where(
    IS_OPEN, claims.c.table_name == sa.bindparam("of")
)
REDECLARE = (
    sa.update(tables)
    .where(tables.c.name == sa.bindparam("of"))
    .values({name: sa.bindparam(name) for name in SIGNATURE})
    .values(head_version=sa.bindparam("version"), changes=tables.c.changes + 1)
)
_FORGET_VERSIONS = (
    sa.update(versions)
    .where(versions.c.table_name == sa.bindparam("of"), versions.c.dropped_by.is_(None))
    .values(dropped_by=sa.bindparam("claim_"))
)
_ADD_VERSION = sa.insert(versions)
_REQUESTED = sa.select(batches.c.label, batches.c.requested, batches.c.requested_sequence).where(
    batches.c.table_name == sa.bindparam("of"), batches.c.requested.is_not(None)
)
_RESTORE_REQUEST = (
    sa.update(batches)
    .where(batches.c.table_name == sa.bindparam("of"), batches.c.label == sa.bindparam("at"))
    .values(requested=sa.bindparam("verb"), requested_sequence=sa.bindparam("then"))
)
# changes one half of each hash, so that the content differs from the one that readers recorded
_CHANGE_HASHES = (
    sa.update(batches)
    .where(batches.c.table_name == sa.bindparam("of"), batches.c.current_claim.is_not(None), batches.c.rows > 0)
    .values(hash_low=(batches.c.hash_low + sa.bindparam("claim_")) % (1 << 32))  # differs also between two rebuilds
)
_SET_SUMS_OF_TABLE = SET_SUMS.where(tables.c.name == sa.bindparam("of"))


def differences(database: LedgerDatabase, flow: Flow) -> dict[str, list[Difference]]:
    """Map tables with batches to the changes of their declarations that only `rebuild` may make."""
    with database.read() as connection:
        known = {row.name: row for row in connection.execute(_TABLES)}
        busy = set(connection.execute(_WITH_BATCHES).scalars())
    found = {
        name: signature_differences(row, flow.tables[name])
        for name, row in known.items()
        if name in busy & flow.tables.keys()
    }
    return {name: differs for name, differs in found.items() if differs}


def take_claim_number(database: LedgerDatabase) -> int:
    """Return a new claim number, under which a table is rebuilt."""
    with database.write(claims=True) as write:
        return write.last_claim


def begin_rebuild(
    database: LedgerDatabase, table: str, *, left: Collection[int] = (), who: str
) -> tuple[int, int | None]:
    """Pause a table until its rebuild is recorded, and return the number of a claim for its commit.

    Without the pause, a batch could commit after the slices were read, and the rebuild would remove its rows. `left`
    are abandoned claims that can only be resolved during the rebuild. The second number is the claim of an earlier
    unfinished rebuild or reset, or None: it is taken over, and must never commit.

    Raises E407 if a batch is running, E644 while all tables are rebuilt.
    """
    with database.write(claims=True) as write:
        require_no_rebuild(write, table)
        running = (row for row in write.execute(_OPEN, {"of": table}).all() if row.number not in left)
        _refuse_open_claim(table, next(running, None))
        row = find_row(write, table)
        return write.last_claim, hold(write, row, write.last_claim, REBUILD, who=who)


def abandon_rebuild(database: LedgerDatabase, table: str, claim: int, *, who: str) -> None:
    """End the pause of a rebuild that failed, unless another one took it over."""
    with database.write() as write:
        row = find_row(write, table)
        if split_hold_reason(row.paused_why)[1] == claim:
            end_hold(write, row, claim, who=who)


def begin_drop(database: LedgerDatabase, table: str, before: datetime, *, who: str, why: str = "") -> None:
    """Record that all windows of a table before an instant are dropped, before the commit that removes them.

    From then on no batch is planned that reads or makes them, and no rebuild shows them again. Raises E407 if a batch,
    a reset or a rebuild of the table is running, E644 while all tables are rebuilt.
    """
    with database.write() as write:
        require_no_rebuild(write, table)
        refuse_open(write, table)
        require_no_holds(write, table)
        row = find_row(write, table)
        record_drop(write, table, before, row.head_version, who=who, why=why)


def require_idle_table(database: LedgerDatabase, table: str) -> None:
    """Raise E407, with the runner's name, if a batch of the table is running."""
    with database.read() as connection:
        _refuse_open_claim(table, connection.execute(_OPEN, {"of": table}).first())


def redeclare(
    database: LedgerDatabase,
    table: Table,
    *,
    version: int,
    claim: int,
    who: str,
    found: CommittedClaim | None = None,
    is_new_log: bool = False,
) -> None:
    """Record that a table was rebuilt, at a version, under its current declaration.

    `found` has new revisions of its slices, if the same slices now mean other rows: all readers of the table become
    suspect. `is_new_log`: older versions have changed and are no longer read. `claim` is that of `begin_rebuild`.

    Raises E407 if a batch is running, E411 if another rebuild took this one over; nothing is written then.
    """
    with database.write() as write:
        refuse_open(write, table.name)
        row = find_row(write, table.name)
        end_hold(write, row, claim, who=who)
        differs = {what for what, _, _ in signature_differences(row, table)}
        write.execute(REDECLARE, {"of": table.name, "version": version} | signature_of(table))
        if found is not None or table.is_fold or is_new_log:
            write.execute(_FORGET_VERSIONS, {"of": table.name, "claim_": claim})
        if found is not None:
            _record_new_revisions(write, found)
            write.execute(_CHANGE_HASHES, {"of": table.name, "claim_": claim})
            write.execute(_SET_SUMS_OF_TABLE, {"of": table.name})
            mark_readers(write, table.name, IntervalSet.from_intervals([(BEGINNING, FOREVER)]), must_compare=True)
        elif table.is_fold and row.head_label is not None and version >= 0:
            entry = {"table_name": table.name, "label": row.head_label, "version": version, "claim": claim}
            write.execute(_ADD_VERSION, entry | {"dropped_by": None})
        write.log("rebuilt", who=who, table=table.name, data={"version": version, "changed": sorted(differs)})


def _record_new_revisions(write: Write, found: CommittedClaim) -> None:
    """Record the new revisions, keeping the requests that users made before."""
    requested = write.execute(_REQUESTED, {"of": found.request.table}).all()
    restore_claim(write, found.request, found.number, found.at)
    # expired lease, so the duration does not count
    record(write, Claim(found.number, found.request, BEGINNING), found.results)
    values = [
        {"of": found.request.table, "at": row.label, "verb": row.requested, "then": row.requested_sequence}
        for row in requested
    ]
    if values:
        write.execute(_RESTORE_REQUEST, values)


def find_row(write: Write, table: str) -> AnyRow:
    """Return a table's database row. Raises E412 if the table was renamed or never declared."""
    row = write.execute(_TABLE, {"of": table}).first()
    if row is None:
        raise ledger_errors.unknown_table(table, write.execute(_NAMES).scalars())
    return row


def refuse_open(write: Write, table: str) -> None:
    """Raise E407 if a batch of the table is running."""
    _refuse_open_claim(table, write.execute(_OPEN, {"of": table}).first())


def _refuse_open_claim(table: str, row: AnyRow | None) -> None:
    if row is not None:
        raise ledger_errors.already_claimed_error(table, None, OpenClaim(row.number, (), row.runner, row.lease_until))
