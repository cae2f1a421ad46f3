"""The companion table `<table>_late`, which stores rows that arrived after the books of their window were closed."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.timelabel.duration import Duration

LATE = "_late"
"""The suffix of the companion table's name. It contains rows that arrived too late, or too early, for any window."""

REASON = "late_reason"
"""The companion table's column with the reason why no window contains the row."""

CAME_LATE, CAME_EARLY, NO_TIME = "late", "early", "no time"
"""The reasons: the window's books were closed; the row is in a slice before those that its window reads; no time."""


@dataclass(frozen=True, slots=True)
class LateRows:
    """The settings of a companion table with the late rows of the table `of`; `column` contains the time of a row.

    `reach`: the time before a window from which its batch reads slices. `within`: the time after a window's end in
    which late rows reopen it; None if they never do.
    """

    of: str
    column: str
    reach: Duration
    within: Duration | None = None


def late_of(table: str) -> str:
    """Return the name of the companion table that stores the late rows of `table`."""
    return f"{table}{LATE}"
