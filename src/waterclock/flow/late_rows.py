"""Late rows, which arrived after the books of their window were closed: the table that keeps them, and its columns."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.timelabel.duration import Duration

LATE = "_late"
"""The suffix of the table that keeps rows which came too late, or too early, for a table's windows."""

REASON = "late_reason"
"""The column with the reason why no window contains the row."""

CAME_LATE, CAME_EARLY, NO_TIME = "late", "early", "no time"
"""The reasons: the books of its window were closed, the window's reads begin after the row, or it has no time."""


@dataclass(frozen=True, slots=True)
class LateRows:
    """The late rows of the table `of`, which its windows no longer accept: by the time in `column`.

    `reach`: how far before a window its slices are read. `within`: how long after its end late rows reopen a window;
    None for never.
    """

    of: str
    column: str
    reach: Duration
    within: Duration | None = None


def late_of(table: str) -> str:
    """Return the name of the table that keeps the late rows of `table`."""
    return f"{table}{LATE}"
