"""Formats the messages about alerts, as text and as JSON: a summary line, the reason, the fix and the owners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waterclock.batches.alerts import Alert, Message, MessageCause, RootCause, TroubleKind
from waterclock.flow.declarations import Flow
from waterclock.operations.formatting import count_words, local_range, number_words, seconds_words
from waterclock.timelabel.label import label_of

_MOST_TABLES = 5
_MOST_FULL_TEXTS = 10  # alerts of a message that have their full text; each further alert has one line
_MOST_LINES = 100
_VERBS = {
    TroubleKind.DAMAGED: "damaged",
    TroubleKind.FAILED: "failed",
    TroubleKind.HELD: "held",
    TroubleKind.EXPIRED: "can never be made",
    TroubleKind.STOPPED: "stopped",
    TroubleKind.WARNED: "warned",
    TroubleKind.SILENT: "source silent",
    TroubleKind.MISSED: "missed the deadline",
    TroubleKind.NEAR: "near the deadline",
    TroubleKind.LONG: "takes long",
    TroubleKind.EMPTY: "is empty",
    TroubleKind.HOLDING: "holds back a log",
    TroubleKind.LOSING: "loses its log",
}
_MARKS = {
    MessageCause.FIRING: "",
    MessageCause.REPEATED: "still: ",
    MessageCause.RESOLVED: "resolved: ",
    MessageCause.PASSED: "passed: ",
}


@dataclass(frozen=True, slots=True)
class Words:
    """Formats the messages about the alerts of one project, with labels in the zones of its tables."""

    project: str
    env: str
    flow: Flow

    def body(self, message: Message, now: datetime) -> Mapping[str, Any]:
        """Return the content of a message for JSON: a title, a text, and the parts of each alert."""
        return {
            "title": self._title(message),
            "text": self._text(message, now),
            "at": _format_instant(now),
            "project": self.project,
            "env": self.env,
            "alerts": [self._alert_fields(cause, alert, now) for cause, alert in message.alerts],
        }

    def _title(self, message: Message) -> str:
        if len(message.alerts) == 1:
            cause, alert = message.alerts[0]
            return f"[{self.project}] {_MARKS[cause]}{self.line(alert.trouble)}"
        new = sum(1 for cause, _ in message.alerts if not cause.is_of_end)
        over = len(message.alerts) - new
        counts = [count_words(new, "alert")] if new else []
        counts += [f"{number_words(over)} resolved"] if over else []
        return f"[{self.project}] {', '.join(counts)}"

    def _text(self, message: Message, now: datetime) -> str:
        texts = [self.full_text(cause, alert, now) for cause, alert in message.alerts[:_MOST_FULL_TEXTS]]
        rest = message.alerts[_MOST_FULL_TEXTS:]
        lines = [f"{_MARKS[cause]}{self.line(alert.trouble)}" for cause, alert in rest[:_MOST_LINES]]
        if more := len(rest) - _MOST_LINES:
            lines += [f"and {number_words(more)} more: `waterclock alerts`"] if more > 0 else []
        return "\n\n".join([*texts, *(["\n".join(lines)] if lines else [])])

    def line(self, trouble: RootCause) -> str:
        """Return one line that names the batches of a cause and describes the problem."""
        return f"{self.where(trouble)} {_VERBS[trouble.kind]}: {trouble.what}{_format_code(trouble)}".strip()

    def where(self, trouble: RootCause) -> str:
        """Format the batches of a cause: the first table with its range of labels, and the number of other tables."""
        names = sorted(trouble.batches)
        labels = trouble.batches[names[0]]
        table = self.flow.tables.get(names[0])
        first = names[0] or "the project"
        if labels and table is not None:
            first += f" @ {local_range(min(labels), max(labels), table.cadence)}"
        if len(labels) > 1:
            first += f" ({count_words(len(labels), 'batch', 'batches')})"
        return first if len(names) == 1 else f"{first} and {count_words(len(names) - 1, 'more table')}"

    def full_text(self, cause: MessageCause, alert: Alert, now: datetime) -> str:
        """Return the full text of one alert."""
        trouble = alert.trouble
        since = seconds_words(((alert.resolved or now) - alert.opened).total_seconds())
        lines = [f"{_MARKS[cause]}{self.line(trouble)}"]
        lines += [f"why  {trouble.why}"] if trouble.why else []
        if cause is MessageCause.RESOLVED:
            return "\n".join([lines[0], f"It lasted {since}."])
        if cause is MessageCause.PASSED:
            return "\n".join([*lines, f"It is over: it was first seen at {_format_instant(alert.opened)}."])
        lines += [f"fix  {trouble.fix}"] if trouble.fix else []
        if blocked := self.blocks(trouble):
            lines.append(f"blocks  {blocked}")
        owners = {table.about.owner for name in trouble.batches if (table := self.flow.tables.get(name))} - {None}
        lines += [f"owner  {', '.join(sorted(map(str, owners)))}"] if owners else []
        if alert.acknowledged is not None:
            lines.append(f"acknowledged by {alert.acknowledged.who}: {alert.acknowledged.why}")
        if cause is MessageCause.REPEATED:
            lines.append(f"It has lasted {since}.")
        return "\n".join([*lines, f"`waterclock alerts acknowledge {alert.number} --why '…'` ends its repeats."])

    def blocks(self, trouble: RootCause) -> str:
        """Return how many batches of which tables wait for the cause, or an empty text if none does."""
        names = sorted(trouble.blocks, key=lambda name: (-trouble.blocks[name], name))
        if not names:
            return ""
        listed = ", ".join(names[:_MOST_TABLES])
        more = len(names) - _MOST_TABLES
        listed += f" and {number_words(more)} more" if more > 0 else ""
        return f"{count_words(sum(trouble.blocks.values()), 'batch', 'batches')} of {listed}"

    def _alert_fields(self, cause: MessageCause, alert: Alert, now: datetime) -> Mapping[str, Any]:
        trouble = alert.trouble
        return {
            "number": alert.number,
            "telling": str(cause),
            "key": trouble.key,
            "kind": str(trouble.kind),
            "severity": str(trouble.severity),
            "code": trouble.code,
            "line": self.line(trouble),
            "what": trouble.what,
            "why": trouble.why,
            "fix": trouble.fix,
            "tables": sorted(trouble.batches),
            "labels": _summarize_labels(trouble.batches),
            "blocks": dict(trouble.blocks),
            "text": self.full_text(cause, alert, now),
            "opened": _format_instant(alert.opened),
            "resolved": None if alert.resolved is None else _format_instant(alert.resolved),
        }


def test_alert(text: str, now: datetime) -> Mapping[str, Any]:
    """Return the alert in a test message. Its state is resolved, so that the target pages no person."""
    empty = dict.fromkeys(("code", "why", "fix", "key"), "")
    at = _format_instant(now)
    return empty | {
        "number": 0,
        "telling": str(MessageCause.PASSED),
        "kind": "test",
        "severity": "none",
        "line": text,
        "what": text,
        "tables": [],
        "labels": {},
        "blocks": {},
        "text": text,
        "opened": at,
        "resolved": at,
    }


def _format_code(trouble: RootCause) -> str:
    return f" ({trouble.code})" if trouble.code else ""


def _summarize_labels(
    batches: Mapping[str, Sequence[datetime] | frozenset[datetime]],
) -> Mapping[str, Mapping[str, Any]]:
    """Map each table to the number of its labels, the first and the last one."""
    return {
        name: {"count": len(labels), "first": label_of(min(labels)), "last": label_of(max(labels))}
        for name, labels in batches.items()
        if labels
    }


def _format_instant(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"
