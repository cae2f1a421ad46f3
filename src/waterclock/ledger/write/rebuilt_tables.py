"""Records a set of tables at once: all tables of a `rebuild --all`, or the initial data of a new ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import (
    BACKFILL,
    BEGINNING,
    FOLLOW,
    RECOMPUTE,
    BatchStatus,
    request_without_release,
)
from waterclock.batches.records import NO_VERSION, Claim, Input
from waterclock.flow.enums import Kind
from waterclock.ledger.read.signatures import SIGNATURE
from waterclock.ledger.store.database import LedgerDatabase, Write
from waterclock.ledger.store.schema import batches, ledger, tables, versions
from waterclock.ledger.write.claims import restore_claim
from waterclock.ledger.write.closings import record_closing_ticks
from waterclock.ledger.write.committed_claims import CommittedClaim, record_drop
from waterclock.ledger.write.completion import record
from waterclock.ledger.write.coverage import cover
from waterclock.ledger.write.emptying import empty_table, request_recompute
from waterclock.ledger.write.rebuild_all_lock import end, require_own
from waterclock.timelabel.intervals import IntervalSet

_TABLE = sa.select(tables).where(tables.c.name == sa.bindparam("of"))
_ADD_TABLE = sa.insert(tables)
_REDECLARE = (
    sa.update(tables)
    .where(tables.c.name == sa.bindparam("of"))
    .values({name: sa.bindparam(name) for name in (*SIGNATURE, "start")})
    .values(is_declared=True)
)
_HEAD = (
    sa.update(tables)
    .where(tables.c.name == sa.bindparam("of"), tables.c.head_version < sa.bindparam("version"))
    .values(head_version=sa.bindparam("version"))
)
_SET_HEAD = sa.update(tables).where(tables.c.name == sa.bindparam("of")).values(head_version=sa.bindparam("version"))
STAYS_DROPPED = "they were dropped before `rebuild --all`"
_DROPPED = sa.update(tables).where(tables.c.name == sa.bindparam("of")).values(dropped_before=sa.bindparam("before"))
_NO_VERSIONS = sa.delete(versions).where(versions.c.table_name == sa.bindparam("of"))
_FULFILLED_VERBS = {FOLLOW, RECOMPUTE}
_ADD_VERSIONS = sa.insert(versions)
_ADD_SKIPPED = sa.insert(batches).values(
    status=BatchStatus.SKIPPED.value, attempts=0, is_suspect=False, hash_high=0, hash_low=0
)
_SET_FLOW = sa.update(ledger).values(flow=sa.bindparam("made_by"))
_REQUESTS = sa.select(batches.c.label, batches.c.end, batches.c.requested, batches.c.requested_sequence).where(
    batches.c.table_name == sa.bindparam("of"), batches.c.requested.is_not(None)
)
_REQUEST = (
    sa.update(batches)
    .where(batches.c.table_name == sa.bindparam("of"), batches.c.label == sa.bindparam("at"))
    .where(batches.c.end == sa.bindparam("until"), batches.c.current_claim.is_not(None))
    .values(requested=sa.bindparam("verb"), requested_sequence=sa.bindparam("sequence"))
)
_PUBLISHES = sa.select(tables.c.name).where(tables.c.kind == Kind.PUBLISH.value)


@dataclass(frozen=True, slots=True)
class MovedTable:
    """A table whose new rows a `rebuild --all` moved in at `version`, with its declaration and new revisions.

    `is_recut`: its labels changed their meaning, so its earlier data no longer counts. `keeps_skipped` and
    `items_before` are those of `empty_table`. `found` is None if the table is empty. `claim` is the claim number of the
    move. Windows before `dropped_before` stay dropped.
    """

    name: str
    signature: Mapping[str, str]
    location: str
    start: datetime | None
    claim: int
    version: int
    found: CommittedClaim | None
    is_recut: bool = False
    dropped_before: datetime | None = None
    keeps_skipped: bool = False
    items_before: datetime | None = None


def record_set(
    database: LedgerDatabase,
    token: str,
    moved: Sequence[MovedTable],
    *,
    who: str,
    asked_again: Iterable[str] = (),
    flow: str | None = None,
) -> None:
    """Record all tables that a `rebuild --all` made, upstream first, in one transaction, and release the rebuild lock.

    Queries read the new tables afterwards. Readers of the old tables outside the set become suspect if their inputs
    differ. `asked_again` are publishes to deliver again: the rows of their table changed, although its digests did not.
    `flow` is the fingerprint of the flow that made the set: runners with another flow can claim nothing more, since its
    labels may have another meaning.

    Requests to make batches again stay, except those that the set meets: `follow` and `recompute` of transforms from
    before the rebuild began. Raises E644 if the rebuild lock has another owner.
    """
    with database.write() as write:
        known = require_own(write, token)
        heads = {each.name: each.version for each in moved}
        for each in moved:
            _record_moved_table(write, each, heads, who, begun=known.sequence)
        publishes = set(write.execute(_PUBLISHES).scalars())
        request_recompute(write, (name for name in asked_again if name in publishes))
        if flow is not None:
            write.execute(_SET_FLOW, {"made_by": flow})
        end(write, known)


def _record_moved_table(write: Write, moved: MovedTable, heads: Mapping[str, int], who: str, *, begun: int) -> None:
    row = write.execute(_TABLE, {"of": moved.name}).first()
    start = moved.start if moved.start is not None or row is None else row.start
    declaration = dict(moved.signature) | {"start": start}
    if row is None:
        empty = {"location": moved.location, "head_version": -1, "changes": 0, "is_declared": True}
        write.execute(_ADD_TABLE, {"name": moved.name} | declaration | empty)
    else:
        write.execute(_REDECLARE, {"of": moved.name} | declaration)
    requests = [] if moved.found is None else _unmet_requests(write, moved, begun)
    if moved.is_recut:
        items_before = moved.items_before or BEGINNING
        empty_table(write, moved.name, moved.claim, keeps_skipped=moved.keeps_skipped, items_before=items_before)
    if moved.found is not None:
        request = replace(moved.found.request, inputs=_replace_input_versions(moved.found, heads))
        restore_claim(write, request, moved.claim, moved.found.at)
        # expired lease, so the duration does not count
        record(write, Claim(moved.claim, request, BEGINNING), moved.found.results)
        record_closing_ticks(write, moved.name, moved.found.results, who=who)
        if requests:
            write.execute(_REQUEST, requests)
    write.execute(_HEAD, {"of": moved.name, "version": moved.version})
    fields = {"version": moved.version, "claim": moved.claim, "is_recut": moved.is_recut, "all": True}
    write.log("rebuilt", who=who, table=moved.name, data=fields)
    if moved.dropped_before is not None:
        record_drop(write, moved.name, moved.dropped_before, moved.version, who=who, why=STAYS_DROPPED)


def _unmet_requests(write: Write, moved: MovedTable, begun: int) -> list[dict[str, Any]]:
    """Return the requests that the new rows of the table do not meet, as values of `_REQUEST`."""
    is_transform = moved.signature["kind"] == Kind.TRANSFORM
    found = []
    for row in write.execute(_REQUESTS, {"of": moved.name}):
        verb = request_without_release(row.requested)  # the new rows replace a held slice
        is_met = verb == BACKFILL or (is_transform and verb in _FULFILLED_VERBS and row.requested_sequence <= begun)
        if verb is not None and not is_met:
            values = {"at": row.label, "until": row.end, "verb": verb, "sequence": row.requested_sequence}
            found.append({"of": moved.name} | values)
    return found


def _replace_input_versions(found: CommittedClaim, heads: Mapping[str, int]) -> Mapping[datetime, tuple[Input, ...]]:
    """Map each label to its inputs, with the new versions of moved tables: the newest for slices, none for states."""
    return {
        label: tuple(
            replace(read, version=heads[read.table] if read.kind == "slices" else NO_VERSION)
            if read.table in heads
            else read
            for read in reads
        )
        for label, reads in found.request.inputs.items()
    }


def seed(
    database: LedgerDatabase,
    found: Sequence[CommittedClaim],
    *,
    head_version: int,
    states: Mapping[datetime, int] | None = None,
) -> None:
    """Record a table's committed claims in a new ledger. `states` maps labels to the versions of their states."""
    with database.write() as write:
        for each in found:
            restore_claim(write, each.request, each.number, each.at)
            record(write, Claim(each.number, each.request, BEGINNING), each.results)
        name = found[0].request.table
        write.execute(_SET_HEAD, {"of": name, "version": head_version})
        if states is not None:
            write.execute(_NO_VERSIONS, {"of": name})
            rows = [
                {"table_name": name, "label": label, "version": version, "claim": found[0].number, "dropped_by": None}
                for label, version in states.items()
            ]
            if rows:
                write.execute(_ADD_VERSIONS, rows)


def seed_dropped_windows(
    database: LedgerDatabase,
    name: str,
    *,
    dropped_before: datetime | None,
    skipped: Sequence[tuple[datetime, datetime]],
) -> None:
    """Record the windows of a table that RETAIN has dropped, and the skipped ones, in a new ledger."""
    with database.write() as write:
        if dropped_before is not None:
            write.execute(_DROPPED, {"of": name, "before": dropped_before})
        if skipped:
            rows: list[dict[str, Any]] = [{"table_name": name, "label": low, "end": high} for low, high in skipped]
            write.execute(_ADD_SKIPPED, rows)
            cover(write.connection, name, IntervalSet.from_intervals(skipped))
