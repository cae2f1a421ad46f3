"""Defines windows: the half-open spans of time whose rows belong to one batch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from waterclock.errors import WaterclockError
from waterclock.timelabel.instant import utc_of
from waterclock.timelabel.label import label_of


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A span of time, `start <= t < end`, never empty. Windows sort by their start.

    Attributes:
        start: The first instant, with its zone.
        end: The first instant after the window, with its zone.

    Example:
        >>> from datetime import UTC, datetime
        >>> window = wc.Window(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
        >>> window.label
        '20260101000000'
        >>> window.contains(window.end)
        False
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if not self.start < self.end:
            raise WaterclockError(
                "E108",
                f"a window from {self.start.isoformat()} to {self.end.isoformat()} is empty",
                why="a window is half-open: it ends after it starts",
                fix="use an end after the start",
            )

    @property
    def label(self) -> str:
        """The window's start in UTC as `YYYYMMDDHHmm00`."""
        return label_of(self.start)

    def contains(self, instant: datetime) -> bool:
        """Return whether the instant is in the window, which does not include its end."""
        return self.start <= utc_of(instant) < self.end
