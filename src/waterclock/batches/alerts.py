"""Defines alerts as the ledger stores them: root causes, notifications sent to targets, and pending messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from waterclock.flow.alerts import Severity
from waterclock.timelabel.label import instant_of, label_of

Batches = Mapping[str, frozenset[datetime]]
"""Labels by table. An empty set means all labels of the table, or of the project where the table is ""."""

LONGEST = 300
"""The maximum length, in characters, of a root cause's texts. Messages need one line; the batch keeps the full text."""

ACKNOWLEDGED = "alert acknowledged"
"""The kind of event that records who acknowledged an alert, and why it may wait."""


class TroubleKind(StrEnum):
    """The kinds of root cause that raise an alert: a stopped batch, a warning about rows, or late or silent data."""

    DAMAGED = "damaged"
    FAILED = "failed"
    HELD = "held"
    EXPIRED = "expired"
    STOPPED = "stopped"
    WARNED = "warned"
    SILENT = "silent"
    MISSED = "missed"
    NEAR = "near"
    LONG = "long"
    EMPTY = "empty"
    HOLDING = "holding"
    LOSING = "losing"

    @property
    def severity(self) -> Severity:
        """The severity of a root cause of this kind."""
        return _SEVERITIES.get(self, Severity.ERROR)


_SEVERITIES = {
    TroubleKind.DAMAGED: Severity.CRITICAL,
    **dict.fromkeys(
        (
            TroubleKind.WARNED,
            TroubleKind.SILENT,
            TroubleKind.NEAR,
            TroubleKind.LONG,
            TroubleKind.EMPTY,
            TroubleKind.HOLDING,
        ),
        Severity.WARNING,
    ),
}


@dataclass(frozen=True, slots=True)
class RootCause:
    """A reason for an alert, such as a failed batch or late data, as found by one check.

    `key` identifies the cause. `batches` are the batches that the cause itself stopped. `blocks` counts, by table, the
    other batches that wait for these. `of_run`: only a run can detect the cause, since the ledger does not show it.
    """

    key: str
    kind: TroubleKind
    what: str
    batches: Batches
    code: str = ""
    why: str = ""
    fix: str = ""
    blocks: Mapping[str, int] = field(default_factory=dict)
    of_run: bool = False

    @property
    def severity(self) -> Severity:
        """The severity of its kind."""
        return self.kind.severity

    @property
    def tables(self) -> frozenset[str]:
        """The affected tables: those with stopped batches and those with batches that wait for them."""
        return frozenset((*self.batches, *self.blocks))

    def with_batches(self, more: Batches) -> RootCause:
        """Return the same cause with further batches added."""
        names = dict.fromkeys((*self.batches, *more))
        return replace(
            self, batches={name: self.batches.get(name, frozenset()) | more.get(name, frozenset()) for name in names}
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the root cause as a dictionary for JSON."""
        return {
            "key": self.key,
            "kind": str(self.kind),
            "severity": str(self.severity),
            "code": self.code,
            "what": self.what,
            "why": self.why,
            "fix": self.fix,
            "batches": {name: [label_of(label) for label in sorted(labels)] for name, labels in self.batches.items()},
            "blocks": dict(self.blocks),
            "of_run": self.of_run,
        }

    @classmethod
    def of_dict(cls, parts: Mapping[str, Any]) -> RootCause:
        """Build a root cause from the dictionary that `to_dict` returned."""
        return cls(
            key=parts["key"],
            kind=TroubleKind(parts["kind"]),
            what=parts["what"],
            batches={name: frozenset(map(instant_of, labels)) for name, labels in parts["batches"].items()},
            code=parts["code"],
            why=parts["why"],
            fix=parts["fix"],
            blocks=parts["blocks"],
            of_run=parts["of_run"],
        )


def cause_key(*parts: str) -> str:
    """Return the key of a root cause: a hash of `parts`, the same in every check and for every runner."""
    return sha256("\n".join(map(str, parts)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Notification:
    """The messages to one target about an alert: the times of the first and the last one, and their number.

    `of_end`: the end of the alert was reported.
    """

    first: datetime
    last: datetime
    times: int = 1
    of_end: bool = False


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The acknowledgement of an alert by a user. An acknowledged alert is not repeated."""

    at: datetime
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An open or past root cause since it was first detected, with the notifications sent about it.

    `resolved` is the time at which the cause was found to be over. `notifications` has the newest one of each target.
    `is_finished` means that it is over and that no further notifications about it are due.
    """

    number: int
    trouble: RootCause
    opened: datetime
    resolved: datetime | None = None
    acknowledged: Acknowledged | None = None
    notifications: Mapping[str, Notification] = field(default_factory=dict)
    is_finished: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the root cause is still present."""
        return self.resolved is None


class MessageCause(StrEnum):
    """The reason why a message contains an alert: the alert is new, persists, is over, or ended before any message."""

    FIRING = "firing"
    REPEATED = "repeated"
    RESOLVED = "resolved"
    PASSED = "passed"

    @property
    def is_of_end(self) -> bool:
        """Whether the message reports that the alert is over."""
        return self in {MessageCause.RESOLVED, MessageCause.PASSED}


@dataclass(frozen=True, slots=True)
class Message:
    """One message to one target: the alerts in their current state, and why each is reported."""

    target: str
    alerts: tuple[tuple[MessageCause, Alert], ...]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message that the ledger has and that is not sent yet. `body` is sent unchanged, even if the alerts change."""

    number: int
    target: str
    at: datetime
    body: Mapping[str, Any]
    attempts: int = 0
    try_at: datetime | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class StoredAlerts:
    """The ledger's alerts at the time of a check, and the facts that decide which messages are sent.

    `alerts` are those that are not finished. `recent` maps targets to the times at which their newest messages were
    written. `waiting` contains the targets with unsent messages. `next_number` is the number of the next alert.
    """

    alerts: tuple[Alert, ...] = ()
    recent: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    waiting: frozenset[str] = frozenset()
    next_number: int = 1


@dataclass(frozen=True, slots=True)
class AlertsNow:
    """The result of a check: the alerts that changed, and the messages to send by target."""

    changed: tuple[Alert, ...] = ()
    messages: tuple[tuple[str, Mapping[str, Any]], ...] = ()


Decide = Callable[[StoredAlerts, datetime], AlertsNow]
"""A function that decides how stored alerts change at an instant of the ledger's clock, and what messages to send."""


@dataclass(frozen=True, slots=True)
class BatchWarnings:
    """The warnings about the rows of a batch."""

    table: str
    label: datetime
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WarningsSince:
    """The warnings that were recorded since an earlier check.

    `batches` are those recorded after the sequence number `since`, up to `up_to`. `newest` has the warnings of the
    newest batch of each of their tables, and of other tables that the caller named.
    """

    since: int
    up_to: int
    batches: tuple[BatchWarnings, ...]
    newest: Mapping[str, BatchWarnings]
