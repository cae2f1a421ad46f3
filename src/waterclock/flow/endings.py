"""RETIRE: a column that ends on a date, until which it exists next to its replacement."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from waterclock.timelabel.zone import date_start


@dataclass(frozen=True, slots=True)
class Ending:
    """RETIRE: in labels that start on the day or after it, the column no longer exists, and is NULL.

    `made_as` is Spark SQL over the other columns, or None if the rows still contain the column itself.
    """

    day: date
    made_as: str | None = None

    def at(self, zone: str) -> datetime:
        """Return the instant at which the column ends: the day's start in the table's zone."""
        return date_start(zone, self.day.toordinal())

    def __str__(self) -> str:
        return f"RETIRE '{self.day}'"
