"""Records the active runners: one row for each, which the runner updates while it is alive.

These rows do not concern batches, so they leave the ledger's sequence unchanged and wake no runner.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import sqlalchemy as sa

from waterclock.batches.audit_records import RunnerClaim, RunnerSeen
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import IS_OPEN, AnyRow, claim_labels, claims, runners

if TYPE_CHECKING:
    from collections.abc import Iterable

_FORGOTTEN_AFTER = timedelta(days=1)
_ADD = sa.insert(runners)
_RENEW = (
    sa.update(runners)
    .where(runners.c.runner == sa.bindparam("name"))
    .values(seen_at=sa.bindparam("at"), flow=sa.bindparam("works_from"))
)
_LEAVE = sa.delete(runners).where(runners.c.runner == sa.bindparam("name"))
_FORGET = sa.delete(runners).where(runners.c.seen_at < sa.bindparam("before"))
_ALL = sa.select(runners).order_by(runners.c.started_at, runners.c.runner)
_HELD = (
    sa.select(
        claims.c.number, claims.c.runner, claims.c.who, claims.c.table_name, claims.c.claimed_at, claims.c.lease_until,
        claim_labels.c.label,
    )
    .join(claim_labels, claim_labels.c.claim == claims.c.number)
    .where(IS_OPEN)
)  # fmt: skip


def register_runner(
    database: LedgerDatabase, runner: str, *, who: str, command: str, flow: str, lease_seconds: float
) -> None:
    """Record that a runner has started. Delete the rows of runners that sent no sign of life for a day."""
    with database.write_unordered() as (connection, at):
        connection.execute(_FORGET, {"before": at - _FORGOTTEN_AFTER})
        connection.execute(_LEAVE, {"name": runner})
        values = {"runner": runner, "who": who, "command": command, "flow": flow, "lease_seconds": lease_seconds}
        connection.execute(_ADD, values | {"started_at": at, "seen_at": at})


def renew_runner(database: LedgerDatabase, runner: str, *, flow: str) -> None:
    """Record that a runner is still alive, and the flow that it runs."""
    with database.write_unordered() as (connection, at):
        connection.execute(_RENEW, {"name": runner, "at": at, "works_from": flow})


def end_runner(database: LedgerDatabase, runner: str) -> None:
    """Record that a runner has ended."""
    with database.write_unordered() as (connection, _):
        connection.execute(_LEAVE, {"name": runner})


def list_runners(database: LedgerDatabase) -> list[RunnerSeen]:
    """Return the registered runners with their open claims, oldest first, then others with open claims.

    Cost: a scan of the runners and of the open claims.
    """
    with database.read() as connection:
        seen = connection.execute(_ALL).all()
        held: dict[str, list[AnyRow]] = {}
        for row in sorted(connection.execute(_HELD).all(), key=lambda row: (row.number, row.label)):
            held.setdefault(row.runner, []).append(row)
    known = [
        RunnerSeen(
            row.runner,
            row.who,
            row.command,
            row.flow,
            row.started_at,
            row.seen_at,
            row.seen_at + timedelta(seconds=row.lease_seconds),
            _group_claims(held.pop(row.runner, ())),
        )
        for row in seen
    ]
    return known + [
        RunnerSeen(name, rows[0].who, "", "", rows[0].claimed_at, None, _last_lease_end(rows), _group_claims(rows))
        for name, rows in held.items()
    ]


def _last_lease_end(rows: Iterable[AnyRow]) -> datetime:
    latest: datetime = max(row.lease_until for row in rows)
    return latest


def _group_claims(rows: Iterable[AnyRow]) -> tuple[RunnerClaim, ...]:
    by_claim: dict[int, list[AnyRow]] = {}
    for row in rows:
        by_claim.setdefault(row.number, []).append(row)
    return tuple(
        RunnerClaim(number, of[0].table_name, tuple(row.label for row in of), of[0].claimed_at, of[0].lease_until)
        for number, of in by_claim.items()
    )
