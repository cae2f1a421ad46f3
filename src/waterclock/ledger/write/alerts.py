"""Records the result of alert checks, the messages to send, and the outcome of sending them.

These writes do not concern batches, so they leave the ledger's sequence unchanged and wake no runner. Concurrent checks
take turns by locking one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from waterclock.batches.alerts import ACKNOWLEDGED, Acknowledged, Alert, AlertsNow, Decide, Outgoing, StoredAlerts
from waterclock.batches.lease_times import LONGEST_TURN, is_pending
from waterclock.errors import WaterclockError
from waterclock.ledger.read.alerts import LOOKED_BEFORE, alert_of_row, outgoing_of_row
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.instants import to_micros
from waterclock.ledger.store.schema import alerts, alerts_look, messages

_RECENT = timedelta(hours=1)
_RETENTION = timedelta(days=30)  # how long sent messages are kept
_TAKE_TURN = sa.update(alerts_look).values(id=alerts_look.c.id)
_FIRST_TURN = sa.insert(alerts_look)
_CHECKED_SEQUENCE = sa.select(alerts_look.c.sequence)
_SET_CHECKED = sa.update(alerts_look).values(sequence=sa.bindparam("up_to"), at=sa.bindparam("looked_at"))
_UNFINISHED = sa.select(alerts).where(sa.not_(alerts.c.is_finished)).order_by(alerts.c.number)
_LAST_ALERT = sa.select(sa.func.coalesce(sa.func.max(alerts.c.number), 0))
_LAST_MESSAGE = sa.select(sa.func.coalesce(sa.func.max(messages.c.number), 0))
_NEWEST = sa.select(messages.c.target, messages.c.at).where(messages.c.at >= sa.bindparam("since"))
_WAITING = sa.select(messages.c.target).where(messages.c.sent_at.is_(None)).distinct()
_ALERT = sa.select(alerts).where(alerts.c.number == sa.bindparam("which"))
_ADD_ALERT = sa.insert(alerts)
_DELETE_ALERT = sa.delete(alerts).where(alerts.c.number == sa.bindparam("which"))
_ACKNOWLEDGE = sa.update(alerts).where(alerts.c.number == sa.bindparam("which"))
_ADD_MESSAGE = sa.insert(messages)
_FORGET = sa.delete(messages).where(messages.c.sent_at < sa.bindparam("before"))
_IS_FREE = sa.or_(
    messages.c.taken_until.is_(None),
    messages.c.taken_until <= sa.bindparam("now"),
    messages.c.taken_until > sa.bindparam("later"),  # as `is_pending`
)
_NEXT = (
    sa.select(messages)
    .where(messages.c.sent_at.is_(None), messages.c.target == sa.bindparam("to"))
    .order_by(messages.c.number)
    .limit(1)
)
_TAKE = (
    sa.update(messages)
    .where(messages.c.number == sa.bindparam("which"), messages.c.sent_at.is_(None), _IS_FREE)
    .values(taken_until=sa.bindparam("until"))
)
_SENT = (
    sa.update(messages)
    .where(messages.c.number == sa.bindparam("which"))
    .values(sent_at=sa.bindparam("at_"), taken_until=None, error=None, attempts=messages.c.attempts + 1)
)
_LOST = (
    sa.update(messages)
    .where(messages.c.number == sa.bindparam("which"))
    .values(
        try_at=sa.bindparam("again"),
        taken_until=None,
        error=sa.bindparam("error_text"),
        attempts=messages.c.attempts + 1,
    )
)


def record_alert_check(database: LedgerDatabase, decide: Decide, *, since: int, up_to: int) -> AlertsNow | None:
    """Record the alerts and messages that `decide` returns, in one transaction.

    `up_to` is the ledger's sequence at this check, `since` that of the previous check. If another check was recorded in
    between, nothing is decided and the result is None.
    """
    with database.write_unordered() as (connection, now):
        if not connection.execute(_TAKE_TURN).rowcount:
            connection.execute(_FIRST_TURN, {"id": 1, "sequence": 0, "at": now - LOOKED_BEFORE})
        if connection.execute(_CHECKED_SEQUENCE).scalar_one() != since:
            return None
        decided = decide(_read_known_alerts(connection, now), now)
        for alert in decided.changed:
            connection.execute(_DELETE_ALERT, {"which": alert.number})
            connection.execute(_ADD_ALERT, _build_alert_row(alert))
        number = connection.execute(_LAST_MESSAGE).scalar_one()
        for target, body in decided.messages:
            number += 1
            row = {"number": number, "target": target, "at": now, "body": dict(body), "attempts": 0}
            connection.execute(_ADD_MESSAGE, row)
        connection.execute(_FORGET, {"before": now - _RETENTION})
        connection.execute(_SET_CHECKED, {"up_to": up_to, "looked_at": now})
        return decided


def acknowledge(database: LedgerDatabase, number: int, *, who: str, why: str) -> Alert:
    """Record that a user acknowledges an alert. Raises E457 for an unknown alert, E458 for one that is over."""
    with database.write() as write:
        write.execute(_TAKE_TURN)
        row = write.execute(_ALERT, {"which": number}).first()
        if row is None:
            raise _unknown_alert(number, [known.number for known in write.execute(_UNFINISHED)])
        alert = alert_of_row(row)
        if alert.resolved is not None:
            raise _alert_is_over(number, alert.resolved)
        values = {"acknowledged_at": write.at, "acknowledged_by": who, "acknowledged_why": why}
        write.execute(_ACKNOWLEDGE.values(**values), {"which": number})
        write.log(ACKNOWLEDGED, who=who, data={"alert": number, "why": why, "what": alert.trouble.what})
        return Alert(
            alert.number, alert.trouble, alert.opened, None, Acknowledged(write.at, who, why), alert.notifications
        )


def take_message(database: LedgerDatabase, target: str, lease: timedelta) -> Outgoing | None:
    """Reserve the oldest message that waits for a target for the time `lease`, so that no other runner sends it.

    Return None if no message waits, if another runner is sending it, or if its next attempt is not due yet.
    """
    with database.write_unordered() as (connection, now):
        row = connection.execute(_NEXT, {"to": target}).first()
        if row is None or is_pending(row.try_at, now):
            return None
        turn = {"until": now + lease, "now": now, "later": now + LONGEST_TURN}
        taken = connection.execute(_TAKE, {"which": row.number} | turn)
        return outgoing_of_row(row) if taken.rowcount else None


def record_sent(database: LedgerDatabase, number: int) -> None:
    """Record that a message has reached its target."""
    with database.write_unordered() as (connection, now):
        connection.execute(_SENT, {"which": number, "at_": now})


def record_lost(database: LedgerDatabase, number: int, error: str, again: timedelta) -> None:
    """Record why a message did not reach its target, and the time `again` to wait before the next attempt."""
    with database.write_unordered() as (connection, now):
        connection.execute(_LOST, {"which": number, "error_text": error, "again": now + again})


def _read_known_alerts(connection: sa.Connection, now: datetime) -> StoredAlerts:
    recent: dict[str, tuple[datetime, ...]] = {}
    for row in connection.execute(_NEWEST, {"since": now - _RECENT}):
        recent[row.target] = (*recent.get(row.target, ()), row.at)
    return StoredAlerts(
        alerts=tuple(map(alert_of_row, connection.execute(_UNFINISHED))),
        recent=recent,
        waiting=frozenset(connection.execute(_WAITING).scalars()),
        next_number=connection.execute(_LAST_ALERT).scalar_one() + 1,
    )


def _build_alert_row(alert: Alert) -> Mapping[str, Any]:
    known = alert.acknowledged
    return {
        "number": alert.number,
        "opened_at": alert.opened,
        "resolved_at": alert.resolved,
        "acknowledged_at": None if known is None else known.at,
        "acknowledged_by": None if known is None else known.who,
        "acknowledged_why": None if known is None else known.why,
        "trouble": alert.trouble.to_dict(),
        "told": {
            target: {
                "first": to_micros(sent.first),
                "last": to_micros(sent.last),
                "times": sent.times,
                "of_end": sent.of_end,
            }
            for target, sent in alert.notifications.items()
        },
        "is_finished": alert.is_finished,
    }


def _unknown_alert(number: int, known: Sequence[int]) -> WaterclockError:
    return WaterclockError(
        "E457",
        f"there is no alert {number}",
        why=f"open are {', '.join(map(str, known))}" if known else "no alert is open",
        fix="`waterclock alerts` lists them",
    )


def _alert_is_over(number: int, at: datetime) -> WaterclockError:
    return WaterclockError(
        "E458",
        f"alert {number} is over since {at:%Y-%m-%d %H:%MZ}",
        why="an alert that is over is not repeated",
        fix="`waterclock alerts` lists the open alerts",
    )
