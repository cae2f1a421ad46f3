"""Determines which ready groups are fresh: they go before backfills and restatements."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from waterclock.planner.plan import Group
from waterclock.timelabel.cadence import Cadence

# a window is fresh if it is among the newest due windows of its table, or became due a short time ago
NEWEST_WINDOWS = 7
RECENTLY = timedelta(days=1)


def find_fresh_start(cadence: Cadence, now: datetime) -> datetime:
    """Return the start of the oldest window of a table that is fresh at `now`."""
    oldest = end = cadence.last_due(now)
    for _ in range(NEWEST_WINDOWS):
        oldest = cadence.previous(oldest)
    recent = cadence.last_due(now - RECENTLY)  # windows that end after it became due since then
    return min(oldest, recent, end)


def is_fresh(group: Group, requested: Collection[datetime], fresh_from: datetime) -> bool:
    """Return whether the newest label of a group is a new window from `fresh_from` on that nobody requested."""
    newest = group.batches[-1]
    return not newest.is_revision and newest.label >= fresh_from and newest.label not in requested
