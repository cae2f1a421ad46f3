"""Defines how far tables are: running claims, done labels with their duration, and rows by label. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class RunningClaim:
    """An open claim: its number of labels, the oldest label, and when it was taken by the ledger's clock."""

    table: str
    claim: int
    first: datetime
    labels: int
    since: datetime


@dataclass(frozen=True, slots=True)
class MadeLabel:
    """A done label.

    `rows` counts the rows of its current revision, including quarantined ones. `done` is when it was first done, by the
    logical clock of runs. `took` is the label's share of the duration of that claim.
    """

    label: datetime
    end: datetime
    rows: int
    done: datetime
    took: timedelta


@dataclass(frozen=True, slots=True)
class LabelRows:
    """The number of rows of a done label, including quarantined rows."""

    label: datetime
    rows: int
