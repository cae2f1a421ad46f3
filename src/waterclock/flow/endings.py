"""A column that ends by date: until then it lives beside what takes its place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from waterclock.timelabel.zone import date_start


@dataclass(frozen=True, slots=True)
class Ending:
    """RETIRE: labels that begin on the day or after it have the column no more, which is NULL in them.

    `made_as` is Spark SQL over the other columns, None where the rows still bring the column itself.
    """

    day: date
    made_as: str | None = None

    def at(self, zone: str) -> datetime:
        """Return the instant from which on it has ended: the day's start in the table's zone."""
        return date_start(zone, self.day.toordinal())

    def __str__(self) -> str:
        return f"RETIRE '{self.day}'"
