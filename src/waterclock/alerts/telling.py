"""Decides what becomes of alerts at a look and who is told: a function of what is so, what was told, and now.

A root cause is one alert from the look that first finds it to the look that finds it over. Each target that a rule
names is told of it once, again as its rules repeat it, and once that it is over; what they may not be told in quiet
hours they are told after these, what came and went in them too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from waterclock.batches.alerts import Alert, Batches, KnownAlerts, Message, Telling, Told, Trouble
from waterclock.flow.alerts import Alerting, AlertRule

MOST, WITHIN, APART = 3, timedelta(minutes=10), timedelta(seconds=30)
"""So many messages one target gets in such a time; what is more is told in one, so long after the message before."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a look finds.

    `troubles`: the root causes that stand, each key once. `passed`: those that were noted since the look before and are
    over already. `unsettled`: of the batches of an alert that no trouble stands for, those of which the look cannot say
    that they are mended, as they are being tried again or were not looked at.
    """

    troubles: Sequence[Trouble] = ()
    passed: Sequence[Trouble] = ()
    unsettled: Callable[[Trouble], Batches] = lambda _: {}


@dataclass(frozen=True, slots=True)
class Decision:
    """The alerts that are new or changed, and what is to be told, in order."""

    changed: tuple[Alert, ...] = ()
    messages: tuple[Message, ...] = ()


def decide(known: KnownAlerts, found: Found, alerting: Alerting, now: datetime) -> Decision:
    """Take up what a look found, and say who is to be told of what."""
    before = {alert.number: alert for alert in known.alerts}
    alerts = {alert.number: alert for alert in _followed(known, found, now)}
    messages: list[Message] = []
    for target in alerting.targets:
        rules = tuple(rule for rule in alerting.rules if target in rule.targets)
        due = _due(alerts.values(), target, rules, now, is_lost=target in known.waiting)
        for message in _bundled(target, due, _slots(known.recent.get(target, ()), now)):
            messages.append(message)
            for telling, alert in message.alerts:
                alerts[alert.number] = _noted(alerts[alert.number], target, telling, now)
    ended = (_finished(alert, alerting) for alert in alerts.values())
    return Decision(tuple(alert for alert in ended if alert != before.get(alert.number)), tuple(messages))


def _followed(known: KnownAlerts, found: Found, now: datetime) -> Iterator[Alert]:
    """Yield the alerts as they stand now: known ones that go on or are over, new ones, those that came and went."""
    standing = {trouble.key: trouble for trouble in found.troubles}
    number = known.next_number
    for alert in known.alerts:
        if not alert.is_open:
            yield alert
            continue
        trouble, left = standing.pop(alert.trouble.key, None), found.unsettled(alert.trouble)
        if trouble is not None:
            yield replace(alert, trouble=trouble.with_batches(left))
        elif left:
            yield alert
        else:
            yield replace(alert, resolved=now)
    for trouble in standing.values():
        yield Alert(number, trouble, now)
        number += 1
    known_keys = {alert.trouble.key for alert in known.alerts if alert.is_open}
    for trouble in found.passed:
        if trouble.key not in known_keys:  # else it is told that the known one is over
            yield Alert(number, trouble, now, resolved=now)
            number += 1


def _due(
    alerts: Collection[Alert], target: str, rules: Sequence[AlertRule], now: datetime, *, is_lost: bool
) -> list[tuple[Telling, Alert]]:
    """Return what a target is to be told now, the loudest first; of one that is lost, nothing is told again."""
    due = []
    for alert in alerts:
        told = alert.told.get(target)
        meant = [rule for rule in rules if is_meant(rule, alert.trouble)]
        heard = meant or ([] if told is None else rules)  # whoever was told of it is told that it is over
        if not any(rule.quiet is None or not rule.quiet.holds_at(now) for rule in heard):
            continue
        telling = _telling(alert, told, _repeat(meant), now)
        if telling is not None and not (telling is Telling.REPEATED and is_lost):
            due.append((telling, alert))
    return sorted(due, key=lambda each: (each[0].is_of_end, each[1].trouble.severity.rank, each[1].number))


def is_meant(rule: AlertRule, trouble: Trouble) -> bool:
    """Tell whether a rule is about a root cause: one that hits all of the project is about each of its tables."""
    return trouble.severity.rank <= rule.severity.rank and ("" in trouble.tables or bool(trouble.tables & rule.tables))


def _telling(alert: Alert, told: Told | None, repeat: timedelta | None, now: datetime) -> Telling | None:
    if told is None:
        return Telling.FIRING if alert.is_open else Telling.PASSED
    if not alert.is_open:
        return None if told.of_end else Telling.RESOLVED
    is_due = repeat is not None and alert.acknowledged is None and now - told.last >= repeat
    return Telling.REPEATED if is_due else None


def _repeat(rules: Sequence[AlertRule]) -> timedelta | None:
    return min((rule.repeat for rule in rules if rule.repeat is not None), default=None)


def _slots(recent: Collection[datetime], now: datetime) -> int:
    newest = [at for at in recent if now - at < WITHIN]
    if len(newest) < MOST:
        return MOST - len(newest)
    return 1 if now - max(newest) >= APART else 0


def _bundled(target: str, due: Sequence[tuple[Telling, Alert]], slots: int) -> list[Message]:
    """Make a message of each, or one of all where that would be too many."""
    if not due or slots <= 0:
        return []
    return [Message(target, (each,)) for each in due] if len(due) <= slots else [Message(target, tuple(due))]


def _noted(alert: Alert, target: str, telling: Telling, now: datetime) -> Alert:
    told = alert.told.get(target)
    is_end = telling.is_of_end
    noted = Told(now, now, of_end=is_end) if told is None else Told(told.first, now, told.times + 1, is_end)
    return replace(alert, told=_with(alert.told, target, noted))


def _with(told: Mapping[str, Told], target: str, noted: Told) -> Mapping[str, Told]:
    return {**told, target: noted}


def _finished(alert: Alert, alerting: Alerting) -> Alert:
    """Let go of an alert that is over, once nobody is to be told of it any more."""
    if alert.is_open or any(_waits(alert, target, alerting.rules) for target in alerting.targets):
        return alert
    return replace(alert, is_finished=True)


def _waits(alert: Alert, target: str, rules: Sequence[AlertRule]) -> bool:
    """Tell whether a target is still to be told of an alert that is over."""
    told = alert.told.get(target)
    of_target = [rule for rule in rules if target in rule.targets]
    if told is None:
        return any(is_meant(rule, alert.trouble) for rule in of_target)
    return bool(of_target) and not told.of_end
