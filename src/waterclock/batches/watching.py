"""What the ledger tells of how far tables have come, and how long that took. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class AtWork:
    """A claim that is not closed: of how many labels, from the oldest on, and since when by the ledger's real clock."""

    table: str
    claim: int
    first: datetime
    labels: int
    since: datetime


@dataclass(frozen=True, slots=True)
class MadeLabel:
    """A label that readers see.

    `rows`: of its current revision, those that were set aside among them. `done`: when it was done for the first time,
    by the clock that runs plan by; `took`: its part of what the claim took that did it.
    """

    label: datetime
    end: datetime
    rows: int
    done: datetime
    took: timedelta


@dataclass(frozen=True, slots=True)
class LabelRows:
    """How many rows a label holds that readers see, those that were set aside among them."""

    label: datetime
    rows: int
