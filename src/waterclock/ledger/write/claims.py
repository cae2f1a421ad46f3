"""Grants claims: the exclusive right of one runner to make labels of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from waterclock.batches.former_names import is_borrowed
from waterclock.batches.ledger_snapshot import BatchStatus, OpenClaim, is_release
from waterclock.batches.records import Claim, ClaimRequest
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Kind, TableType
from waterclock.ledger import ledger_errors
from waterclock.ledger.read.content import contents_of
from waterclock.ledger.read.inputs import read_inputs
from waterclock.ledger.store.database import LedgerDatabase, Write, pause_of
from waterclock.ledger.store.rows import columns_of
from waterclock.ledger.store.schema import (
    IS_OPEN,
    AnyRow,
    batches,
    claim_labels,
    claims,
    closings,
    inputs,
    items,
    tables,
)
from waterclock.ledger.write.rebuild_all_lock import require_no_rebuild
from waterclock.timelabel.label import label_of

_NAMES = sa.select(tables.c.name)
# All data that a claim depends on, in one query: its input tables, its own table, and the stored states of its labels.
_TABLES_AND_LABELS = (
    sa.select(
        *columns_of(tables, "name kind type mode changes paused_at paused_by paused_why location"),
        sa.exists().where(IS_OPEN, claims.c.table_name == tables.c.name).label("is_held"),
        *columns_of(batches, "label status claim current_claim requested is_suspect missing"),
    )
    .outerjoin(
        batches,
        sa.and_(
            tables.c.name == sa.bindparam("of"),
            batches.c.table_name == sa.bindparam("of"),
            batches.c.label.in_(sa.bindparam("labels", expanding=True)),
        ),
    )
    .where(tables.c.name.in_(sa.bindparam("names", expanding=True)))
)
_HOLDERS = (
    sa.select(claims.c.number, claims.c.runner, claims.c.lease_until, claim_labels.c.label)
    .join(claim_labels, claim_labels.c.claim == claims.c.number)
    .where(IS_OPEN, claims.c.table_name == sa.bindparam("of"))
    .order_by(claims.c.number, claim_labels.c.label)
)
# a claim with an expired lease does not count in the pool, since it may never be resolved
_IN_POOL = (
    sa.select(sa.func.count())
    .select_from(claims)
    .where(IS_OPEN, claims.c.pool == sa.bindparam("pool_"), claims.c.lease_until >= sa.bindparam("now_"))
)
_TICKS = sa.select(closings.c.label, closings.c.tick).where(
    closings.c.table_name == sa.bindparam("of"), closings.c.label.in_(sa.bindparam("labels", expanding=True))
)
_ADD_CLAIM = sa.insert(claims)
_ADD_LABELS = sa.insert(claim_labels)
_ADD_BATCHES = sa.insert(batches)
_RUN_BATCHES = (
    sa.update(batches)
    .where(batches.c.table_name == sa.bindparam("of"), batches.c.label == sa.bindparam("at"))
    .values(
        status=BatchStatus.RUNNING.value,
        claim=sa.bindparam("number_"),
        # a done batch keeps its number of attempts; making it again starts a new count
        attempts=sa.case((batches.c.status == BatchStatus.DONE.value, 1), else_=batches.c.attempts + 1),
    )
)
_ADD_INPUTS = sa.insert(inputs)
_ADD_ITEMS = sa.insert(items)
_OWNERS = sa.select(items.c.item, items.c.label).where(
    items.c.table_name == sa.bindparam("of"), items.c.item.in_(sa.bindparam("names", expanding=True))
)
_OPEN = sa.select(claims).where(IS_OPEN)  # sorted in Python: in SQL, sorting by number would read all claims
_LABELS = (
    sa.select(claim_labels.c.label)
    .where(claim_labels.c.claim == sa.bindparam("number_"))
    .order_by(claim_labels.c.label)
)


def claim(database: LedgerDatabase, request: ClaimRequest) -> Claim:
    """Claim all labels of `request` for its runner, in one transaction, or refuse the claim.

    Raises E406 if the runner's flow is not the applied one, E409 for a skipped label, E412 for an unknown table, E473
    for a table that a branch borrows. Raises E408 for a label that is done and complete, unless it is requested or
    suspect, or the request has a reason to restate. The other errors are transient:

    - E407: another claim is open. E427: the table's pool is full. E429: the table, or all tables, are paused.
    - E410: an input changed since it was looked up. E456: a window was reopened since it was planned.
    - E644: all tables are being rebuilt. E756: a label to release is no longer held.
    - E828: a label was made by another claim than the one that the runner saw.
    - E850: log entries that a label is to own were assigned to another label since.
    """
    with database.write(claims=True) as write:
        if write.flow != request.flow:
            raise ledger_errors.unapplied_flow_error(request.flow, write.flow)
        known, before = _read_tables_and_labels(write, request)
        if is_borrowed(known[request.table].location):
            raise _borrowed_table_error(request.table, request.labels[0])
        # checked in this transaction: a runner that planned before the pause claims nothing after it
        if pause := pause_of(known[request.table]) or write.paused:
            raise ledger_errors.build_paused_error(request.table, request.labels[0], pause)
        require_no_rebuild(write, f"{request.table}@{label_of(request.labels[0])}")
        if known[request.table].is_held:
            _require_no_concurrent_claim(write, request, known[request.table])
        _require_room_in_pool(write, request)
        _check_batches(request, before)
        _check_closings(write, request)
        _check_inputs(write, request, known)
        number = write.last_claim
        _own_items(write, request, number)
        lease_until = write.at + timedelta(seconds=request.lease_seconds)
        _record_claim(write, request, number, lease_until, before, {name: row.changes for name, row in known.items()})
        return Claim(number, request, lease_until, write.erasures)


def _borrowed_table_error(table: str, label: datetime) -> WaterclockError:
    return WaterclockError(
        "E473",
        f"{table} is borrowed",
        where=f"{table}@{label_of(label)}",
        why="a branch only reads the tables of the other environment",
        fix="make the label there, then delete the branch and create it again",
    )


def restore_claim(write: Write, request: ClaimRequest, number: int, lease_until: datetime) -> None:
    """Record a claim under a known number, such as one from a lost ledger.

    Its inputs are compared with the current ones when its result is recorded.
    """
    known, before = _read_tables_and_labels(write, request)
    _record_claim(write, request, number, lease_until, before, dict.fromkeys(known, -1))


def open_claims(database: LedgerDatabase) -> list[Claim]:
    """Return all open claims, with their labels and inputs, oldest first."""
    with database.read() as connection:
        rows = sorted(connection.execute(_OPEN).all(), key=lambda row: row.number)
        return [_read_claim(connection, row) for row in rows]


def _record_claim(
    write: Write,
    request: ClaimRequest,
    number: int,
    lease_until: datetime,
    before: Mapping[datetime, AnyRow],
    changes: Mapping[str, int],
) -> None:
    write.later(_ADD_CLAIM, _build_claim_row(write, request, number, lease_until))
    _add_labels(write, request, number, before)
    rows = list(_build_input_rows(request, number, changes))
    if rows:
        write.later(_ADD_INPUTS, rows)
    write.log("claimed", who=request.who, table=request.table, labels=request.labels, claim=number, run=request.run)


def _read_tables_and_labels(
    write: Write, request: ClaimRequest
) -> tuple[Mapping[str, AnyRow], Mapping[datetime, AnyRow]]:
    """Return the rows of the request's tables by name, and the stored rows of its labels."""
    names = {pinned.table for of_label in request.inputs.values() for pinned in of_label} | {request.table}
    values = {"of": request.table, "labels": request.labels, "names": sorted(names)}
    rows = write.execute(_TABLES_AND_LABELS, values).all()
    known = {row.name: row for row in rows}
    if request.table not in known:
        raise ledger_errors.unknown_table(request.table, write.execute(_NAMES).scalars())
    return known, {row.label: row for row in rows if row.label is not None}


def _require_no_concurrent_claim(write: Write, request: ClaimRequest, table: AnyRow) -> None:
    rows = write.execute(_HOLDERS, {"of": request.table}).all()
    requested = set(request.labels)
    # a delivery depends on the rows that earlier ones left at the destination, even if each label is delivered alone
    is_single = table.type == TableType.REGULAR or table.kind == Kind.PUBLISH
    for row in rows:
        if is_single or row.label in requested:
            labels = tuple(other.label for other in rows if other.number == row.number)
            holder = OpenClaim(row.number, labels, row.runner, row.lease_until)
            raise ledger_errors.already_claimed_error(
                request.table, row.label if row.label in requested else None, holder
            )


def _require_room_in_pool(write: Write, request: ClaimRequest) -> None:
    if request.pool is None:
        return
    name, size = request.pool
    count = write.execute(_IN_POOL, {"pool_": name, "now_": write.at}).scalar_one()
    if count >= size:
        raise ledger_errors.pool_full(request.table, request.labels[0], name, size)


def _check_batches(request: ClaimRequest, before: Mapping[datetime, AnyRow]) -> None:
    for row in before.values():
        if row.status == BatchStatus.SKIPPED:
            raise ledger_errors.build_skipped_error(request.table, row.label)
        sealed = request.held.get(row.label)
        is_requested = request.restates is not None or is_release(row.requested)
        if sealed is not None and not (is_requested and (row.status, row.claim) == (BatchStatus.HELD.value, sealed)):
            raise _unreleasable_batch_error(request.table, row.label)
        if request.seen.get(row.label, row.current_claim) != row.current_claim:
            raise ledger_errors.collected_meanwhile_error(request.table, row.label, row.current_claim)
        is_requested = row.requested is not None or row.is_suspect or row.missing is not None
        is_requested = is_requested or request.restates is not None
        if row.current_claim is not None and not is_requested:
            raise ledger_errors.batch_done_error(request.table, row.label, row.current_claim)


def _unreleasable_batch_error(table: str, label: datetime) -> ledger_errors.ClaimRefused:
    """Build the error for a held batch to release that another user has released, made again or skipped."""
    return ledger_errors.ClaimRefused(
        "E756",
        f"{table}@{label_of(label)} cannot be released",
        where=f"{table}@{label_of(label)}",
        why="it is no longer held, or the request was withdrawn: another user was faster",
        transient=True,
    )


def _check_closings(write: Write, request: ClaimRequest) -> None:
    if not request.closed:
        return
    known = write.execute(_TICKS, {"of": request.table, "labels": sorted(request.closed)})
    for label in (row.label for row in known if row.tick != request.closed[row.label]):
        raise ledger_errors.reopened_window_error(request.table, label)


def _check_inputs(write: Write, request: ClaimRequest, known: Mapping[str, AnyRow]) -> None:
    pinned = [
        (label, read)
        for label, reads in request.inputs.items()
        for read in reads
        if read.table in known and read.changes != known[read.table].changes
    ]
    modes = {name: row.mode for name, row in known.items()}
    found = contents_of(write.connection, modes, ((read.table, read.low, read.high) for _, read in pinned))
    for label, read in pinned:
        if found[read.table, read.low, read.high] != read.content:
            raise ledger_errors.inputs_changed(request.table, label, read.read)


def _own_items(write: Write, request: ClaimRequest, number: int) -> None:
    """Record the source items that each label owns, before they are read. They stay assigned if the claim fails."""
    names = {str(item["name"]): label for label, owned in request.owned.items() for item in owned}
    if not names:
        return
    known = {row.item: row.label for row in write.execute(_OWNERS, {"of": request.table, "names": list(names)})}
    for name, label in names.items():
        if known.get(name, label) != label:
            raise ledger_errors.range_taken_error(request.table, label, known[name])
    rows = [
        {"table_name": request.table, "item": item["name"], "label": label, "claim": number, "data": dict(item)}
        for label, owned in request.owned.items()
        for item in owned
        if item["name"] not in known
    ]
    if rows:
        write.later(_ADD_ITEMS, rows)


def _build_claim_row(write: Write, request: ClaimRequest, number: int, lease_until: datetime) -> dict[str, Any]:
    return {
        "number": number,
        "table_name": request.table,
        "status": "open",
        "code": request.code,
        "flow": request.flow,
        "runner": request.runner,
        "who": request.who,
        "run": request.run,
        "now": request.now,
        "target_version": request.target_version,
        "claimed_at": write.at,
        "claimed_sequence": write.sequence,
        "lease_seconds": request.lease_seconds,
        "lease_until": lease_until,
        "pool": request.pool[0] if request.pool else None,
    }


def _add_labels(write: Write, request: ClaimRequest, number: int, before: Mapping[datetime, AnyRow]) -> None:
    labels: list[dict[str, Any]] = []
    new: list[dict[str, Any]] = []
    again: list[dict[str, Any]] = []
    for label in request.labels:
        row = before.get(label)
        prior = {"prior_status": row.status, "prior_claim": row.claim} if row else {}
        labels.append(
            {"claim": number, "label": label, "table_name": request.table, "prior_status": None, "prior_claim": None}
            | prior
        )
        if row is None:
            new.append(_build_batch_row(request.table, label, number))
        else:
            again.append({"of": request.table, "at": label, "number_": number})
    for statement, values in ((_ADD_LABELS, labels), (_ADD_BATCHES, new), (_RUN_BATCHES, again)):
        if values:
            write.later(statement, values)


def _build_batch_row(table: str, label: datetime, number: int) -> dict[str, Any]:
    return {
        "table_name": table,
        "label": label,
        "status": BatchStatus.RUNNING.value,
        "claim": number,
        "attempts": 1,
        "is_suspect": False,
        "hash_high": 0,
        "hash_low": 0,
    }


def _build_input_rows(request: ClaimRequest, number: int, changes: Mapping[str, int]) -> Iterable[dict[str, Any]]:
    for label, reads in request.inputs.items():
        for position, read in enumerate(reads):
            yield {
                "claim": number,
                "label": label,
                "position": position,
                "reader": request.table,
                "table_name": read.table,
                "read": read.read,
                "kind": read.kind,
                "low": read.low,
                "high": read.high,
                "location": read.location,
                "version": read.version,
                "content": read.content,
                "changes": changes.get(read.table, 0),
            }


def _read_claim(connection: sa.Connection, row: AnyRow) -> Claim:
    request = ClaimRequest(
        table=row.table_name,
        labels=tuple(connection.execute(_LABELS, {"number_": row.number}).scalars()),
        code=row.code,
        flow=row.flow,
        runner=row.runner,
        who=row.who,
        now=row.now,
        lease_seconds=row.lease_seconds,
        target_version=row.target_version,
        inputs=read_inputs(connection, row.number),
        run=row.run,
    )
    return Claim(row.number, request, row.lease_until)
