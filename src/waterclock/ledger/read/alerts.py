"""Reads open alerts, messages waiting to be sent, and warnings recorded since a check."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import sqlalchemy as sa

from waterclock.batches.alerts import (
    Acknowledged,
    Alert,
    BatchWarnings,
    Notification,
    Outgoing,
    RootCause,
    WarningsSince,
)
from waterclock.batches.records import warnings_of
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.instants import from_micros
from waterclock.ledger.store.schema import (
    HAS_WARNINGS,
    IS_DONE,
    AnyRow,
    alerts,
    alerts_look,
    batches,
    claims,
    made_by_claim,
    messages,
    revisions,
)

LOOKED_BEFORE = timedelta(days=1)  # the period that a first check covers
_OVERLAP = timedelta(hours=1)  # tolerance: clock times of claims may be in another order than their sequence numbers
_ALERTS = sa.select(alerts).order_by(alerts.c.number)
_UNSENT = sa.select(messages).where(messages.c.sent_at.is_(None)).order_by(messages.c.number)
_LAST_CHECK = sa.select(alerts_look)
_RECORDED = (
    sa.select(revisions.c.table_name, revisions.c.label, revisions.c.measures)
    .join(
        claims,
        sa.and_(claims.c.number == revisions.c.claim, IS_DONE, claims.c.closed_at >= sa.bindparam("at_")),
    )
    .where(
        revisions.c.recorded_sequence > sa.bindparam("after"),
        revisions.c.recorded_sequence <= sa.bindparam("up_to"),
        HAS_WARNINGS,
    )
    .order_by(revisions.c.table_name, revisions.c.label)
)
_NEWEST = (
    sa.select(revisions.c.table_name, revisions.c.label, revisions.c.measures)
    .join(batches, made_by_claim(revisions, batches, batches.c.current_claim))
    .where(batches.c.table_name == sa.bindparam("of"))
    .order_by(batches.c.label.desc())
    .limit(1)
)


def list_alerts(database: LedgerDatabase, *, finished: int = 0) -> tuple[Alert, ...]:
    """Return all unfinished alerts and the newest `finished` finished ones, oldest first."""
    with database.read() as connection:
        rows = list(map(alert_of_row, connection.execute(_ALERTS.where(sa.not_(alerts.c.is_finished)))))
        if finished:
            ended = sa.select(alerts).where(alerts.c.is_finished).order_by(alerts.c.number.desc()).limit(finished)
            rows += map(alert_of_row, connection.execute(ended))
        return tuple(sorted(rows, key=lambda alert: alert.number))


def list_outgoing_messages(database: LedgerDatabase) -> tuple[Outgoing, ...]:
    """Return the messages that wait to be sent, oldest first."""
    with database.read() as connection:
        return tuple(map(outgoing_of_row, connection.execute(_UNSENT)))


def find_warned_batches(database: LedgerDatabase, up_to: int, also: Collection[str] = ()) -> WarningsSince:
    """Return the batches with warnings about their rows, recorded since the last check and up to the sequence `up_to`.

    The result also has the newest batch of their tables and of the tables in `also`. Cost: one query of the claims that
    ended since the last check, and one for each of these tables.
    """
    with database.read() as connection:
        last_check = connection.execute(_LAST_CHECK).first()
        at = database.clock() - LOOKED_BEFORE if last_check is None else last_check.at
        since = 0 if last_check is None else last_check.sequence
        values = {"at_": at - _OVERLAP, "after": since, "up_to": up_to}
        recorded = tuple(map(_build_warned, connection.execute(_RECORDED, values)))
        names = dict.fromkeys((*(warned.table for warned in recorded), *also))
        newest = [connection.execute(_NEWEST, {"of": name}).first() for name in names]
        return WarningsSince(
            since, up_to, recorded, {row.table_name: _build_warned(row) for row in newest if row is not None}
        )


def alert_of_row(row: AnyRow) -> Alert:
    """Build an alert from its database row."""
    known = row.acknowledged_at
    return Alert(
        number=row.number,
        trouble=RootCause.of_dict(row.trouble),
        opened=row.opened_at,
        resolved=row.resolved_at,
        acknowledged=None if known is None else Acknowledged(known, row.acknowledged_by, row.acknowledged_why),
        notifications={
            target: Notification(from_micros(sent["first"]), from_micros(sent["last"]), sent["times"], sent["of_end"])
            for target, sent in row.told.items()
        },
        is_finished=bool(row.is_finished),
    )


def outgoing_of_row(row: AnyRow) -> Outgoing:
    """Build a message from its database row."""
    return Outgoing(row.number, row.target, row.at, row.body, row.attempts, row.try_at, row.error or "")


def _build_warned(row: AnyRow) -> BatchWarnings:
    return BatchWarnings(row.table_name, row.label, warnings_of(row.measures))
