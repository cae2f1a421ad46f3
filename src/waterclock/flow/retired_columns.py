"""RETIRE: the date on which a column ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from waterclock.timelabel.zone import date_start


@dataclass(frozen=True, slots=True)
class Ending:
    """A RETIRE: from `day` on, the column is NULL in all labels.

    `made_as`: the Spark SQL over other columns that computes it before that day; None if the rows contain it.
    """

    day: date
    made_as: str | None = None

    def at(self, zone: str) -> datetime:
        """Return the instant at which the column ends: the day's start in the table's zone."""
        return date_start(zone, self.day.toordinal())

    def __str__(self) -> str:
        return f"RETIRE '{self.day}'"
