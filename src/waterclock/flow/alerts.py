"""Who is told of what, as `[alerts]` of the project file says it: rules by selection and severity, targets, hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from waterclock.flow.declarations import Secret
from waterclock.timelabel.zone import nominal_zone


class Severity(StrEnum):
    """How loud a root cause is, the loudest first."""

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"

    @property
    def rank(self) -> int:
        """0 for the loudest."""
        return list(Severity).index(self)


class TargetKind(StrEnum):
    """By what a target is reached."""

    APPRISE = "apprise"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class Target:
    """Where messages go: an address of the library apprise, or of a webhook, which may take a token.

    `place`: where the project file says it.
    """

    name: str
    kind: TargetKind
    address: str | Secret
    token: str | Secret | None = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class Quiet:
    """Hours of each day, in minutes since midnight in a zone, in which nobody is told; they may go over midnight."""

    begin: int
    end: int
    zone: str

    def holds_at(self, now: datetime) -> bool:
        """Tell whether it is quiet at an instant."""
        local = now.astimezone(nominal_zone(self.zone))
        minute = local.hour * 60 + local.minute
        if self.begin < self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end


@dataclass(frozen=True, slots=True)
class AlertRule:
    """Which root causes some targets are told of: those that hit one of `tables`, of this severity or louder.

    `repeat`: how long after it was told last one that still stands is told again; None for never.
    """

    name: str
    tables: frozenset[str]
    severity: Severity
    targets: tuple[str, ...]
    repeat: timedelta | None
    quiet: Quiet | None = None


@dataclass(frozen=True, slots=True)
class Alerting:
    """All that a project says of alerts. `is_on`: this environment tells; elsewhere nobody is told of anything."""

    targets: Mapping[str, Target] = field(default_factory=dict)
    rules: tuple[AlertRule, ...] = ()
    is_on: bool = False
