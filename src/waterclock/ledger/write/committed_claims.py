"""Records committed claims that are missing in the ledger, or open there, from their commit records."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from waterclock.batches.audit_records import BEGUN_ANEW, RESET
from waterclock.batches.records import BatchResult, Claim, ClaimRequest
from waterclock.flow.enums import Mode
from waterclock.ledger import ledger_errors
from waterclock.ledger.read.signatures import SIGNATURE
from waterclock.ledger.store.database import LedgerDatabase, Write
from waterclock.ledger.store.schema import IS_OPEN, claims, events, ledger, tables, versions
from waterclock.ledger.write.claims import restore_claim
from waterclock.ledger.write.closings import record_closing_ticks
from waterclock.ledger.write.completion import record
from waterclock.ledger.write.emptying import RECUT, empty_table

_STATUS = sa.select(claims.c.status).where(claims.c.number == sa.bindparam("number_"))
_NAMES = sa.select(tables.c.name)
_NUMBERS = sa.select(claims.c.number, claims.c.status).where(claims.c.table_name == sa.bindparam("of"))
_RAISE_CLAIM = (
    sa.update(ledger).where(ledger.c.last_claim < sa.bindparam("number_")).values(last_claim=sa.bindparam("number_"))
)
_REDECLARE = (
    sa.update(tables)
    .where(tables.c.name == sa.bindparam("of"))
    .values({name: sa.bindparam(name) for name in SIGNATURE})
)
_TABLE = sa.select(tables.c.mode, tables.c.head_version, tables.c.head_label).where(tables.c.name == sa.bindparam("of"))
# a batch that committed later may be recorded already
_MOVE = (
    sa.update(tables)
    .where(tables.c.name == sa.bindparam("of"), tables.c.head_version < sa.bindparam("to"))
    .values(head_version=sa.bindparam("to"))
)
# a batch that is not recorded yet may have committed before: then the later version also contains its rows
_MOVE_STATE = (
    sa.update(versions)
    .where(versions.c.table_name == sa.bindparam("of"), versions.c.label == sa.bindparam("at"))
    .where(versions.c.dropped_by.is_(None))
    .where(~sa.exists().where(IS_OPEN, claims.c.table_name == sa.bindparam("of")))
    .values(version=sa.bindparam("to"))
)
_DROP = sa.update(tables).where(tables.c.name == sa.bindparam("of")).values(dropped_before=sa.bindparam("before"))
_OF_TABLE = (events.c.table_name == sa.bindparam("of"), events.c.label.is_(None))
_LAST_DROP = (
    sa.select(events.c.id, events.c.data)
    .where(*_OF_TABLE, events.c.kind == "dropped", events.c.at <= sa.bindparam("by"))
    .order_by(events.c.id.desc())
    .limit(1)
)
_EMPTIED_SINCE = sa.select(events.c.data).where(
    *_OF_TABLE, events.c.kind.in_(BEGUN_ANEW), events.c.id > sa.bindparam("since")
)
_FORGET_VERSIONS = (
    sa.update(versions)
    .where(versions.c.table_name == sa.bindparam("of"), versions.c.dropped_by.is_(None))
    .where(versions.c.version < sa.bindparam("oldest"), versions.c.label < sa.bindparam("head"))
    .values(dropped_by=0)
)


@dataclass(frozen=True, slots=True)
class CommittedClaim:
    """A claim as described by its record in the stage and its commit. `at` is the time of the commit."""

    number: int
    request: ClaimRequest
    results: tuple[BatchResult, ...]
    at: datetime


def known_claims(database: LedgerDatabase, table: str) -> dict[int, str]:
    """Map the number of each claim of a table to its status."""
    with database.read() as connection:
        return {row.number: row.status for row in connection.execute(_NUMBERS, {"of": table})}


def adopt(database: LedgerDatabase, found: CommittedClaim) -> bool:
    """Record a committed claim as of its commit; return False if it was recorded before. Raises E412, E414."""
    with database.write() as write:
        status = write.execute(_STATUS, {"number_": found.number}).scalar()
        if status not in {None, "open"}:
            return False
        if status is None:
            if found.request.restates == RECUT:
                _reset_recut_table(write, found)
            _record_missing_claim(write, found)
        write.at = found.at
        # the lease ends at the commit, so that the time from the claim's number to the commit counts as its duration
        record(write, Claim(found.number, found.request, found.at), found.results, recorded_at=found.at)
        record_closing_ticks(write, found.request.table, found.results, who=found.request.who)
        return True


def _reset_recut_table(write: Write, found: CommittedClaim) -> None:
    """Record that `rebuild --all` changed the windows of this table: its earlier data no longer counts."""
    table, version = found.request.table, found.results[0].version
    # labels before the first new window were dropped: their files are not collected again
    empty_table(write, table, found.number, items_before=min(found.request.labels))
    write.at = found.at
    data = {"version": version, "claim": found.number, "is_recut": True, "all": True}
    write.log("rebuilt", who=found.request.who, table=table, data=data)


def adopt_reset(database: LedgerDatabase, table: str, *, version: int, claim: int, at: datetime, who: str) -> None:
    """Record that a commit reset a table: its earlier data no longer counts."""
    with database.write() as write:
        empty_table(write, table, claim)
        write.execute(_MOVE, {"of": table, "to": version})
        write.execute(_RAISE_CLAIM, {"number_": claim})
        write.at = at
        write.log(RESET, who=who, table=table, data={"version": version, "claim": claim, "is_recut": True})


def raise_claims(database: LedgerDatabase, number: int) -> None:
    """Give all later claims numbers above `number`."""
    with database.write() as write:
        write.execute(_RAISE_CLAIM, {"number_": number})


def move_head(database: LedgerDatabase, table: str, version: int) -> None:
    """Record a later version of a table, which OPTIMIZE committed, and that this version stores the newest state.

    While a claim of the table is open, the version of the newest state does not change: the later version may contain
    rows of that claim.
    """
    with database.write() as write:
        row = write.execute(_TABLE, {"of": table}).first()
        if row is None or row.head_version >= version:
            return
        write.execute(_MOVE, {"of": table, "to": version})
        if row.mode != Mode.APPEND and row.head_label is not None:
            write.execute(_MOVE_STATE, {"of": table, "at": row.head_label, "to": version})


def drop_windows(
    database: LedgerDatabase, table: str, before: datetime, version: int, *, who: str, why: str = ""
) -> None:
    """Record that a commit removed all windows before an instant from a table, for RETAIN or for a user's `why`."""
    with database.write() as write:
        record_drop(write, table, before, version, who=who, why=why)


def record_drop(write: Write, table: str, before: datetime, version: int, *, who: str, why: str = "") -> None:
    """Do the same as `drop_windows`, within a transaction."""
    write.execute(_DROP, {"of": table, "before": before})
    write.execute(_MOVE, {"of": table, "to": version})
    data = {"before": before.isoformat(), "version": version, **({"why": why} if why else {})}
    write.log("dropped", who=who, table=table, data=data)


def find_drop_boundary(database: LedgerDatabase, table: str, *, by: datetime) -> datetime | None:
    """Return the instant before which all windows of a table had been dropped, as of `by`; None if none were.

    A drop no longer counts once the table was emptied, even after `by`, since its windows are made again then. Cost: a
    query, and a second one if windows were dropped.
    """
    with database.read() as connection:
        drop = connection.execute(_LAST_DROP, {"of": table, "by": by}).first()
        if drop is None:
            return None
        later = connection.execute(_EMPTIED_SINCE, {"of": table, "since": drop.id})
        is_emptied = any(row.data.get("is_recut") for row in later)
    return None if is_emptied else datetime.fromisoformat(drop.data["before"])


def forget_versions(database: LedgerDatabase, table: str, oldest: int) -> None:
    """Record that versions before `oldest` can no longer be read, except that of the newest state."""
    with database.write() as write:
        row = write.execute(_TABLE, {"of": table}).first()
        if row is not None and row.head_label is not None:
            write.execute(_FORGET_VERSIONS, {"of": table, "oldest": oldest, "head": row.head_label})


def _record_missing_claim(write: Write, found: CommittedClaim) -> None:
    names: Collection[str] = set(write.execute(_NAMES).scalars())
    if found.request.table not in names:
        raise ledger_errors.unknown_table(found.request.table, names)
    if found.request.declared:  # the export may be older than this declaration
        write.execute(_REDECLARE, {"of": found.request.table, **found.request.declared})
    # a claim's number is the clock in milliseconds, or slightly above if many claims were taken at once
    write.at = min(found.at, datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=found.number))
    restore_claim(write, found.request, found.number, found.at)
    write.execute(_RAISE_CLAIM, {"number_": found.number})
