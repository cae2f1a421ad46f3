"""Rows that came after the books of their window were closed: the table that keeps them, and what it holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.timelabel.duration import Duration

LATE = "_late"
"""What is put behind a table's name for the table that keeps the rows which came too late, or too early, for it."""

REASON = "late_reason"
"""The column that says of each such row why no window took it."""

CAME_LATE, CAME_EARLY, NO_TIME = "late", "early", "no time"
"""The reasons: the books of its window were closed; its window began to read behind it; it has no time."""


@dataclass(frozen=True, slots=True)
class LateRows:
    """Keeps the rows which the windows of the table `of` take no more: by the time in `column`.

    `reach`: how far before a window its slices are read. `within`: how long after its end late rows open a window
    again; None for never.
    """

    of: str
    column: str
    reach: Duration
    within: Duration | None = None


def late_of(table: str) -> str:
    """Name the table that keeps the late rows of `table`."""
    return f"{table}{LATE}"
