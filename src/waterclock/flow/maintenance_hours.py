"""The `[maintenance]` section of the project file: when a watching run maintains its tables by itself. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import nominal_zone, resolve_local


@dataclass(frozen=True, slots=True)
class MaintenanceHours:
    """The hours of each day in which a watching run maintains its tables, and how much it joins in them.

    `start` and `end` are wall-clock times of `zone`. An `end` that is not after `start` is on the next day.
    `join_bytes`: how many bytes of small files are joined in the hours of one day.
    """

    start: time
    end: time
    zone: str
    join_bytes: int

    def window_at(self, now: datetime) -> Window | None:
        """Return the hours that contain `now`, as instants, or None outside of them.

        A time that a zone skips or repeats is read as in a cadence: moved forward by the gap, or its first occurrence.
        """
        today = now.astimezone(nominal_zone(self.zone)).date()
        for day in (today, today - timedelta(days=1)):
            start = resolve_local(datetime.combine(day, self.start), self.zone)
            last = day + timedelta(days=int(self.end <= self.start))
            end = resolve_local(datetime.combine(last, self.end), self.zone)
            if start <= now < end:
                return Window(start.astimezone(UTC), end.astimezone(UTC))
        return None
