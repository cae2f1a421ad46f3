"""Alerts as the ledger keeps them: root causes that somebody is told of, what each target was told, what waits."""

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
"""By table, labels; an empty set where all of a table, or of the project (""), is meant."""

LONGEST = 300
"""How many characters of a text a root cause keeps: it is told on a line, and stands in full where the batch does."""

ACKNOWLEDGED = "alert acknowledged"
"""The kind of event that says who knows of an alert, and why it may wait."""


class TroubleKind(StrEnum):
    """What raises an alert: what stopped, what was said of rows, or what is late or silent."""

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
        """How loud it is."""
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
class Trouble:
    """A root cause as one look finds it.

    `key`: what tells one cause from another. `batches`: those that it stopped itself. `blocks`: by table, how many more
    wait for these. `of_run`: the ledger alone does not tell it, a run's look does.
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
        """How loud it is."""
        return self.kind.severity

    @property
    def tables(self) -> frozenset[str]:
        """The tables that it hits: those that it stopped, and those that wait for them."""
        return frozenset((*self.batches, *self.blocks))

    def with_batches(self, more: Batches) -> Trouble:
        """Return the same cause, of more batches."""
        names = dict.fromkeys((*self.batches, *more))
        return replace(
            self, batches={name: self.batches.get(name, frozenset()) | more.get(name, frozenset()) for name in names}
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
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
    def of_dict(cls, said: Mapping[str, Any]) -> Trouble:
        """Read what `to_dict` wrote."""
        return cls(
            key=said["key"],
            kind=TroubleKind(said["kind"]),
            what=said["what"],
            batches={name: frozenset(map(instant_of, labels)) for name, labels in said["batches"].items()},
            code=said["code"],
            why=said["why"],
            fix=said["fix"],
            blocks=said["blocks"],
            of_run=said["of_run"],
        )


def cause_key(*parts: str) -> str:
    """Return the key of a root cause: the same parts are the same cause, at every look and for every runner."""
    return sha256("\n".join(map(str, parts)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Told:
    """What one target was told of an alert: when first and last, how often, and whether that it is over."""

    first: datetime
    last: datetime
    times: int = 1
    of_end: bool = False


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """That somebody knows of an alert: it is not repeated any more."""

    at: datetime
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class Alert:
    """A root cause since it was first seen, and who was told of it.

    `resolved`: when it was seen to be over. `is_finished`: it is over, and nobody is to be told of that any more.
    """

    number: int
    trouble: Trouble
    opened: datetime
    resolved: datetime | None = None
    acknowledged: Acknowledged | None = None
    told: Mapping[str, Told] = field(default_factory=dict)
    is_finished: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is not over."""
        return self.resolved is None


class Telling(StrEnum):
    """Why a message tells of an alert: it is new, still stands, is over, or came and went before it was told."""

    FIRING = "firing"
    REPEATED = "repeated"
    RESOLVED = "resolved"
    PASSED = "passed"

    @property
    def is_of_end(self) -> bool:
        """Whether it tells that the alert is over."""
        return self in {Telling.RESOLVED, Telling.PASSED}


@dataclass(frozen=True, slots=True)
class Message:
    """What one target is to be told at once: alerts as they stand, and why each is told."""

    target: str
    alerts: tuple[tuple[Telling, Alert], ...]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message that waits in the ledger to be sent; `body` is what is told, whatever becomes of the alerts."""

    number: int
    target: str
    at: datetime
    body: Mapping[str, Any]
    attempts: int = 0
    try_at: datetime | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class KnownAlerts:
    """What the ledger knows of alerts at a look.

    `alerts`: those that are not finished. `recent`: by target, when its newest messages were made. `waiting`: the
    targets for which messages wait. `next_number`: of the next alert.
    """

    alerts: tuple[Alert, ...] = ()
    recent: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    waiting: frozenset[str] = frozenset()
    next_number: int = 1


@dataclass(frozen=True, slots=True)
class AlertsNow:
    """What a look comes to: the alerts that changed, and what is to be told."""

    changed: tuple[Alert, ...] = ()
    messages: tuple[tuple[str, Mapping[str, Any]], ...] = ()


Decide = Callable[[KnownAlerts, datetime], AlertsNow]
"""What becomes of the alerts that are known, at an instant by the ledger's clock."""


@dataclass(frozen=True, slots=True)
class Warned:
    """What was said of the rows of a batch."""

    table: str
    label: datetime
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WarnedSince:
    """What was said of rows since a look: `batches` recorded after the sequence `since`, up to `up_to`.

    `newest`: by table, of these and of others that were asked for, what was said of the newest batch.
    """

    since: int
    up_to: int
    batches: tuple[Warned, ...]
    newest: Mapping[str, Warned]
