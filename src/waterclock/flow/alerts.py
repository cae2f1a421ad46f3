"""The `[alerts]` section of the project file: rules, targets and quiet hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from waterclock.flow.declarations import Secret
from waterclock.timelabel.zone import nominal_zone


class Severity(StrEnum):
    """The severity of an alert's root cause. The members are ordered from the highest to the lowest."""

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"

    @property
    def rank(self) -> int:
        """The severity as a number: 0 for the highest."""
        return list(Severity).index(self)


class TargetKind(StrEnum):
    """The delivery method of an alert target: the library apprise, or a webhook."""

    APPRISE = "apprise"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class Target:
    """A destination of alerts: an apprise address, or a webhook with an optional token.

    `place`: the position of its declaration in the project file, for messages.
    """

    name: str
    kind: TargetKind
    address: str | Secret
    token: str | Secret | None = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Daily hours without alerts, in minutes since midnight in a zone. They may extend over midnight."""

    begin: int
    end: int
    zone: str

    def is_quiet_at(self, now: datetime) -> bool:
        """Return whether an instant is within the quiet hours."""
        local = now.astimezone(nominal_zone(self.zone))
        minute = local.hour * 60 + local.minute
        if self.begin < self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end


@dataclass(frozen=True, slots=True)
class AlertRule:
    """A rule that sends alerts to `targets` about root causes of at least `severity` that affect one of `tables`.

    `repeat`: the time after which an alert is sent again if its cause persists; None for never.
    """

    name: str
    tables: frozenset[str]
    severity: Severity
    targets: tuple[str, ...]
    repeat: timedelta | None
    quiet: QuietHours | None = None


@dataclass(frozen=True, slots=True)
class Alerting:
    """All alert settings of a project. `is_on`: the current environment sends alerts."""

    targets: Mapping[str, Target] = field(default_factory=dict)
    rules: tuple[AlertRule, ...] = ()
    is_on: bool = False
