"""The companion table `<table>_late` of rows that arrived after the books of their window were closed."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.timelabel.duration import Duration

LATE = "_late"
"""The suffix of the companion table with rows that arrived too late, or too early, for a table's windows."""

REASON = "late_reason"
"""The column with the reason why no window contains the row."""

CAME_LATE, CAME_EARLY, NO_TIME = "late", "early", "no time"
"""The reasons: the window's books were closed, the row is in a slice before those that its window reads, or no time."""


@dataclass(frozen=True, slots=True)
class LateRows:
    """The settings of a companion table with the late rows of the table `of`; `column` has the time of a row.

    `reach`: how far before a window slices are read for it. `within`: how long after a window's end late rows reopen
    it; None for never.
    """

    of: str
    column: str
    reach: Duration
    within: Duration | None = None


def late_of(table: str) -> str:
    """Return the name of the companion table that keeps the late rows of `table`."""
    return f"{table}{LATE}"
