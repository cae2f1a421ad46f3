"""Prints alerts: the open ones, their recipients and the pending messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.alerts.checking import AlertCheckOutcome, lost_words
from waterclock.alerts.wording import Words
from waterclock.batches.alerts import Alert, Outgoing
from waterclock.flow.alerts import Severity, Target
from waterclock.operations.formatting import count_words, seconds_words

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.dpl.project import Project
    from waterclock.json_models.alerts import AlertsAnswer, AlertsSentAnswer, AlertsTestAnswer, OpenAlert

_STYLES = {Severity.CRITICAL: "fail.loud", Severity.ERROR: "fail", Severity.WARNING: "warn"}


@dataclass(frozen=True, slots=True)
class AlertList:
    """The open alerts and the pending messages, at an instant of the ledger's clock."""

    project: Project
    now: datetime
    alerts: tuple[Alert, ...] = ()
    outgoing: tuple[Outgoing, ...] = ()


@dataclass(frozen=True, slots=True)
class TestMessageResult:
    """A target that a test message was sent to, and the error if it did not arrive."""

    target: Target
    error: str = ""


def print_alerts(to: Console, known: AlertList) -> None:
    """Print the open alerts, the number of pending messages for each target, and the rules that select targets."""
    words = words_of(known.project)
    for alert in known.alerts:
        _print_alert(to, words, alert, known.now)
    if not known.alerts:
        to.print("no alert is open")
    for target in dict.fromkeys(message.target for message in known.outgoing):
        waiting = [message for message in known.outgoing if message.target == target]
        why = next((f": {message.error}" for message in waiting if message.error), "")
        is_there = target in known.project.alerts.targets
        gone = "" if is_there else ", which is no longer declared"
        to.print(
            Text(f"{count_words(len(waiting), 'message waits', 'messages wait')} for {target}{gone}{why}"),
            soft_wrap=True,
        )
    _print_rules(to, known.project)


def words_of(project: Project) -> Words:
    """Return the formatter for the texts of a project's alerts."""
    return Words(project.name, project.env, project.flow)


def _print_alert(to: Console, words: Words, alert: Alert, now: datetime) -> None:
    trouble = alert.trouble
    since = seconds_words((now - alert.opened).total_seconds())
    head = Text.assemble((f"{alert.number}", "name"), "  ", (str(trouble.severity), _STYLES[trouble.severity]), "  ")
    to.print(head.append(words.line(trouble)), soft_wrap=True)
    lines = [f"open for {since}"]
    if held := words.blocks(trouble):
        lines.append(f"blocks {held}")
    if trouble.fix:
        lines.append(f"fix  {trouble.fix}")
    if alert.notifications:
        lines.append(f"sent to {', '.join(f'{name} ({sent.times}×)' for name, sent in alert.notifications.items())}")
    if alert.acknowledged is not None:
        lines.append(f"acknowledged by {alert.acknowledged.who}: {alert.acknowledged.why}")
    for line in lines:
        to.print(Text(f"   {line}"), soft_wrap=True)


def _print_rules(to: Console, project: Project) -> None:
    alerting = project.alerts
    if not alerting.targets:
        to.print("no alert is sent: no target is declared below [alerts.targets]")
    elif not alerting.is_on:
        to.print(Text(f"environment {project.env} sends no alerts: set alerts = true below [env.{project.env}]"))
    for rule in alerting.rules if alerting.is_on else ():
        tables = count_words(len(rule.tables), "table")
        quiet = "" if rule.quiet is None else ", except in quiet hours"
        text = f"{', '.join(rule.targets)}: {rule.severity} and above, of {tables}{quiet} (rule {rule.name})"
        to.print(Text(text, style="quiet"), soft_wrap=True)


def known_answer(known: AlertList) -> AlertsAnswer:
    """Build the JSON answer with the open alerts and the pending messages."""
    from waterclock.json_models.alerts import AlertsAnswer

    alerting, words = known.project.alerts, words_of(known.project)
    return AlertsAnswer.build(
        env=known.project.env,
        is_on=alerting.is_on,
        open=[_alert_answer(alert, words) for alert in known.alerts],
        waiting=known.outgoing,
        targets=list(alerting.targets.values()),
        rules=alerting.rules,
    )


def _alert_answer(alert: Alert, words: Words) -> OpenAlert:
    from waterclock.json_models.alerts import OpenAlert

    return OpenAlert.build(
        alert,
        **{key: value for key, value in alert.trouble.to_dict().items() if key not in {"key", "of_run"}},
        line=words.line(alert.trouble),
        sent=alert.notifications,
    )


def print_tried(to: Console, tried: Sequence[TestMessageResult], *, is_on: bool, env: str) -> None:
    """Print for each target whether its test message arrived, and whether runs send alerts (`is_on`)."""
    for each in tried:
        line = Text.assemble((each.target.name, "name"), f"  {each.target.kind}  ")
        to.print(line.append(f"not reached: {each.error}", "fail") if each.error else line.append("sent", "ok"))
    if not is_on:
        to.print(Text(f"runs send no alerts here: set alerts = true below [env.{env}]"))


def tried_answer(tried: Sequence[TestMessageResult]) -> AlertsTestAnswer:
    """Build the JSON answer with the results of the test messages."""
    from waterclock.json_models.alerts import AlertsTestAnswer

    return AlertsTestAnswer.build(ok=not any(each.error for each in tried), targets=tried)


def print_acknowledged(to: Console, alerts: Sequence[Alert], project: Project) -> None:
    """Print the alerts whose messages are no longer repeated."""
    words = words_of(project)
    for alert in alerts:
        to.print(Text.assemble((f"{alert.number}", "name"), f"  acknowledged: {words.line(alert.trouble)}"))


def print_sent(to: Console, outcome: AlertCheckOutcome, waiting: int) -> None:
    """Print how many messages were sent, and how many are pending."""
    sent = outcome.sent
    to.print(f"{count_words(sent.messages, 'message')} sent" if sent.messages else "nothing was sent")
    for lost in sent.lost:
        to.print(Text(lost_words(lost)))
    if waiting:
        to.print(f"{count_words(waiting, 'message waits', 'messages wait')} to be sent")


def sent_answer(outcome: AlertCheckOutcome, waiting: int) -> AlertsSentAnswer:
    """Build the JSON answer with the sent and lost messages and the number of pending ones."""
    from waterclock.json_models.alerts import AlertsSentAnswer

    return AlertsSentAnswer.build(sent=outcome.sent.messages, lost=outcome.sent.lost, waiting=waiting)
