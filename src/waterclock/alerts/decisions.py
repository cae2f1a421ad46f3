"""Decides which alerts open and end, and which messages are sent. Pure: the input is causes, messages and the time.

A root cause is one alert, from the check that first finds it to the check that finds it resolved. Each target of a
matching rule gets a message when the alert opens, repeats as configured, and a message when it is resolved. Messages
that fall into quiet hours are sent later, even about causes that are over by then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from waterclock.batches.alerts import Alert, Batches, Message, MessageCause, Notification, RootCause, StoredAlerts
from waterclock.flow.alerts import Alerting, AlertRule

MOST, WITHIN, APART = 3, timedelta(minutes=10), timedelta(seconds=30)
"""A target gets at most MOST messages in the time WITHIN. Further alerts are combined into one message each APART."""


@dataclass(frozen=True, slots=True)
class AlertInput:
    """The root causes that a check found.

    `troubles`: the current causes, each key once. `passed`: warnings that appeared since the last check and are over
    already. `unsettled` returns the batches of an earlier cause that may not be fixed yet, because they are being
    retried or were not checked.
    """

    troubles: Sequence[RootCause] = ()
    passed: Sequence[RootCause] = ()
    unsettled: Callable[[RootCause], Batches] = lambda _: {}


@dataclass(frozen=True, slots=True)
class Decision:
    """The new and changed alerts, and the messages to send, in order."""

    changed: tuple[Alert, ...] = ()
    messages: tuple[Message, ...] = ()


def decide(known: StoredAlerts, found: AlertInput, alerting: Alerting, now: datetime) -> Decision:
    """Update the alerts with the found causes, and decide on the messages for each target."""
    before = {alert.number: alert for alert in known.alerts}
    alerts = {alert.number: alert for alert in _update_alerts(known, found, now)}
    messages: list[Message] = []
    for target in alerting.targets:
        rules = tuple(rule for rule in alerting.rules if target in rule.targets)
        due = _due_notifications(alerts.values(), target, rules, now, is_lost=target in known.waiting)
        for message in _bundle_messages(target, due, _count_free_slots(known.recent.get(target, ()), now)):
            messages.append(message)
            for cause, alert in message.alerts:
                alerts[alert.number] = _record_notification(alerts[alert.number], target, cause, now)
    ended = (_mark_finished(alert, alerting) for alert in alerts.values())
    return Decision(tuple(alert for alert in ended if alert != before.get(alert.number)), tuple(messages))


def _update_alerts(known: StoredAlerts, found: AlertInput, now: datetime) -> Iterator[Alert]:
    """Yield the known alerts with their new states, then new alerts, also for causes that are over already."""
    current = {trouble.key: trouble for trouble in found.troubles}
    number = known.next_number
    for alert in known.alerts:
        if not alert.is_open:
            yield alert
            continue
        trouble, left = current.pop(alert.trouble.key, None), found.unsettled(alert.trouble)
        if trouble is not None:
            yield replace(alert, trouble=trouble.with_batches(left))
        elif left:
            yield alert
        else:
            yield replace(alert, resolved=now)
    for trouble in current.values():
        yield Alert(number, trouble, now)
        number += 1
    known_keys = {alert.trouble.key for alert in known.alerts if alert.is_open}
    for trouble in found.passed:
        if trouble.key not in known_keys:  # otherwise the message that the known alert is resolved is enough
            yield Alert(number, trouble, now, resolved=now)
            number += 1


def _due_notifications(
    alerts: Collection[Alert], target: str, rules: Sequence[AlertRule], now: datetime, *, is_lost: bool
) -> list[tuple[MessageCause, Alert]]:
    """Return the alerts to send to a target now, most severe first. A target that was not reached gets no repeats."""
    due = []
    for alert in alerts:
        sent = alert.notifications.get(target)
        matching = [rule for rule in rules if is_meant(rule, alert.trouble)]
        applicable = matching or ([] if sent is None else rules)  # the end is sent to each target that got the alert
        awake = [rule for rule in applicable if rule.quiet is None or not rule.quiet.is_quiet_at(now)]
        if not awake:
            continue
        cause = _choose_message_cause(alert, sent, _shortest_repeat([rule for rule in matching if rule in awake]), now)
        if cause is not None and not (cause is MessageCause.REPEATED and is_lost):
            due.append((cause, alert))
    return sorted(due, key=lambda each: (each[0].is_of_end, each[1].trouble.severity.rank, each[1].number))


def is_meant(rule: AlertRule, trouble: RootCause) -> bool:
    """Return whether a rule matches a root cause. A cause that affects the whole project matches each of its tables."""
    return trouble.severity.rank <= rule.severity.rank and ("" in trouble.tables or bool(trouble.tables & rule.tables))


def _choose_message_cause(
    alert: Alert, sent: Notification | None, repeat: timedelta | None, now: datetime
) -> MessageCause | None:
    if sent is None:
        return MessageCause.FIRING if alert.is_open else MessageCause.PASSED
    if not alert.is_open:
        return None if sent.of_end else MessageCause.RESOLVED
    is_due = repeat is not None and alert.acknowledged is None and now - sent.last >= repeat
    return MessageCause.REPEATED if is_due else None


def _shortest_repeat(rules: Sequence[AlertRule]) -> timedelta | None:
    return min((rule.repeat for rule in rules if rule.repeat is not None), default=None)


def _count_free_slots(recent: Collection[datetime], now: datetime) -> int:
    newest = [at for at in recent if now - at < WITHIN]
    if len(newest) < MOST:
        return MOST - len(newest)
    return 1 if now - max(newest) >= APART else 0


def _bundle_messages(target: str, due: Sequence[tuple[MessageCause, Alert]], slots: int) -> list[Message]:
    """Build one message per alert, or a single message for all if there are more alerts than `slots`."""
    if not due or slots <= 0:
        return []
    return [Message(target, (each,)) for each in due] if len(due) <= slots else [Message(target, tuple(due))]


def _record_notification(alert: Alert, target: str, cause: MessageCause, now: datetime) -> Alert:
    sent = alert.notifications.get(target)
    is_end = cause.is_of_end
    notification = (
        Notification(now, now, of_end=is_end) if sent is None else Notification(sent.first, now, sent.times + 1, is_end)
    )
    return replace(alert, notifications={**alert.notifications, target: notification})


def _mark_finished(alert: Alert, alerting: Alerting) -> Alert:
    """Mark a resolved alert as finished, once no target needs a message about it any more."""
    if alert.is_open or any(_needs_message(alert, target, alerting.rules) for target in alerting.targets):
        return alert
    return replace(alert, is_finished=True)


def _needs_message(alert: Alert, target: str, rules: Sequence[AlertRule]) -> bool:
    """Return whether a target still needs a message about a resolved alert."""
    sent = alert.notifications.get(target)
    of_target = [rule for rule in rules if target in rule.targets]
    if sent is None:
        return any(is_meant(rule, alert.trouble) for rule in of_target)
    return bool(of_target) and not sent.of_end
