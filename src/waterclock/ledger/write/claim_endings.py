"""Extends a claim's lease, and ends claims: as recorded, failed, or lost to another runner."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.batches.records import Claim
from waterclock.ledger import ledger_errors
from waterclock.ledger.store.database import LedgerDatabase, Write
from waterclock.ledger.store.schema import IS_OPEN, batches, claim_labels, claims
from waterclock.ledger.write.decisions import end_releases, read_batches

_RENEW = (
    sa.update(claims)
    .where(claims.c.number == sa.bindparam("number_"), IS_OPEN)
    .values(lease_until=sa.bindparam("until"))
)
_STATUS = sa.select(claims.c.status).where(claims.c.number == sa.bindparam("number_"))
_CLOSE = (
    sa.update(claims)
    .where(claims.c.number == sa.bindparam("number_"), IS_OPEN)
    .values(
        status=sa.bindparam("as_"),
        closed_at=sa.bindparam("closed"),
        error=sa.bindparam("why"),
        is_transient=sa.bindparam("transient"),
    )
    .returning(claims.c.claimed_sequence, claims.c.lease_until)
)
_FAIL_BATCHES = (
    sa.update(batches)
    .where(batches.c.claim == sa.bindparam("number_"), batches.c.table_name == sa.bindparam("of"))
    .where(batches.c.label == sa.bindparam("at"))
    .values(
        status=sa.bindparam("as_"),
        error=sa.bindparam("why"),
        is_transient=sa.bindparam("transient"),
        due_again=sa.bindparam("again"),
    )
)
_PRIOR = sa.select(claim_labels).where(claim_labels.c.claim == sa.bindparam("number_"))
_RESTORE_STATUS = (
    sa.update(batches)
    .where(batches.c.table_name == sa.bindparam("of"), batches.c.label == sa.bindparam("at"))
    .where(batches.c.claim == sa.bindparam("number_"))
    .values(status=sa.bindparam("as_"), claim=sa.bindparam("before"))
)


class ClosedClaim(NamedTuple):
    """The ledger's sequence when a claim was taken, and the end of its lease after the last renewal."""

    claimed_sequence: int
    lease_until: datetime


def renew(database: LedgerDatabase, claim: Claim) -> Claim:
    """Extend the claim's lease, counted from now. Raises E411 if the claim is closed: its runner must stop its work."""
    with database.write() as write:
        until = write.at + timedelta(seconds=claim.request.lease_seconds)
        if write.execute(_RENEW, {"number_": claim.number, "until": until}).rowcount == 0:
            raise _closed_claim_error(write, claim.number)
    return replace(claim, lease_until=until)


def close_lost(database: LedgerDatabase, claim: Claim, why: str, *, who: str | None = None) -> None:
    """Close a claim that can no longer commit; its labels return to their earlier state. Raises E411 if closed."""
    with database.write() as write:
        close(write, claim.number, "lost", why=why)
        restore_statuses(write, claim.number, claim.request.labels)
        _log_end(write, "lost", claim, {"why": why}, who=who or claim.request.who)


def record_failed(
    database: LedgerDatabase,
    claim: Claim,
    *,
    error: str,
    is_transient: bool,
    status: BatchStatus = BatchStatus.FAILED,
    due_again: datetime | None = None,
    own: Collection[datetime] | None = None,
) -> None:
    """Close a claim that did not commit. Each of its labels keeps the error until it is claimed again.

    `status` is FAILED, or HELD if an audit holds the batch. A label that was done before stays readable with its
    earlier rows. If a batch with a request to release it is held again, the request ends, since no user has reviewed
    its new rows. `own` has the labels for which the claim was taken, if not all of them. Others, such as past windows
    that a LOOKBACK reads again, return to their earlier state. Raises E411 if the claim is closed already.
    """
    with database.write() as write:
        close(write, claim.number, status.value, why=error, is_transient=is_transient)
        values = {"number_": claim.number, "of": claim.request.table, "as_": status.value, "why": error}
        values |= {"transient": is_transient, "again": due_again}
        failed = [label for label in claim.request.labels if own is None or label in own]
        write.execute(_FAIL_BATCHES, [values | {"at": label} for label in failed])
        if status is BatchStatus.HELD:
            rows = end_releases(write, claim.request.table, read_batches(write, claim.request.table, failed).values())
            why = {"why": "the batch was made again, and its new rows are held"}
            write.log(
                "release refused",
                who=claim.request.who,
                table=claim.request.table,
                labels=[row.label for row in rows],
                data=why,
            )
        restore_statuses(write, claim.number, {*claim.request.labels} - {*failed})
        _log_end(write, status.value, claim, {"error": error, "is_transient": is_transient})


def close(
    write: Write, number: int, status: str, *, why: str | None = None, is_transient: bool | None = None
) -> ClosedClaim:
    """Close an open claim in a transaction. Raises E411 if it is closed."""
    values = {"number_": number, "as_": status, "closed": write.at, "why": why, "transient": is_transient}
    row = write.execute(_CLOSE, values).first()
    if row is None:
        raise _closed_claim_error(write, number)
    return ClosedClaim(int(row.claimed_sequence), row.lease_until)


def restore_statuses(write: Write, number: int, labels: Iterable[datetime]) -> None:
    """Restore the status that labels of a closed claim had before the claim."""
    wanted = set(labels)
    if not wanted:
        return
    rows = [
        {"of": row.table_name, "at": row.label, "number_": number, "as_": row.prior_status, "before": row.prior_claim}
        for row in write.execute(_PRIOR, {"number_": number})
        if row.label in wanted
    ]
    if rows:
        write.execute(_RESTORE_STATUS, rows)


def _closed_claim_error(write: Write, number: int) -> ledger_errors.ClaimClosed:
    return ledger_errors.closed_claim_error(number, write.execute(_STATUS, {"number_": number}).scalar())


def _log_end(write: Write, kind: str, claim: Claim, data: Mapping[str, Any], *, who: str | None = None) -> None:
    request = claim.request
    write.log(
        kind,
        who=who or request.who,
        table=request.table,
        labels=request.labels,
        claim=claim.number,
        run=request.run,
        data=data,
    )
