"""Finds when a zone changed its offset, and which local dates it skipped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise

from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.period import TimeUnit, first_ordinal, index_of
from waterclock.timelabel.zone import first_instant, nominal_zone

# The years for which `fits` compares the windows of two cadences.
HISTORY_START = datetime(1971, 1, 1, tzinfo=UTC)
HISTORY_END = datetime(2101, 1, 1, tzinfo=UTC)

# Since 1971, and by the rules up to 2100, no zone changes its offset twice within 6 days.
_PROBE = timedelta(days=3)
_SECOND = timedelta(seconds=1)


@cache
def offset_changes(zone: str) -> tuple[tuple[datetime, timedelta], ...]:
    """Return each offset of the zone from 1971 to 2100, with the instant from which it applies, oldest first."""
    changes = [(HISTORY_START, _offset(zone, HISTORY_START))]
    if zone == "UTC":
        return tuple(changes)
    probe = HISTORY_START
    while probe < HISTORY_END:
        later = min(probe + _PROBE, HISTORY_END)
        offset = _offset(zone, later)
        if offset != changes[-1][1]:
            changes.append((_first_with_other_offset(zone, probe, later), offset))
        probe = later
    return tuple(changes)


@cache
def skipped_dates(zone: str) -> tuple[int, ...]:
    """Return the local dates that never occurred, such as 2011-12-30 in Apia, each as its `date.toordinal`.

    A date is skipped only if the offset jumps by about a day, from one side of the date line to the other.
    """
    if zone == "UTC":
        return ()
    found: list[int] = []
    step, jump = timedelta(days=183), timedelta(hours=12)
    at, last = EPOCH - 280 * step, EPOCH + 140 * step  # 1829 to 2040: rules for later years shift by hours only
    while at < last:
        if _offset(zone, at + step) - _offset(zone, at) > jump:
            span = range(at.toordinal() - 1, (at + step).toordinal() + 2)
            found += [day for day in span if first_instant(zone, day) == first_instant(zone, day + 1)]
        at += step
    return tuple(sorted(set(found)))


@cache
def sample_window_starts(zone: str, unit: TimeUnit, splits: tuple[datetime, ...] = ()) -> tuple[datetime, ...]:
    """Return a sample of window starts that represents 1971 to 2100: some around each offset change, and one between.

    Between two changes every calendar window starts at the same time of day in UTC, so a few starts are enough. Starts
    around `splits`, such as the offset changes of another zone, are included too. Starts that no label can name are
    left out.
    """
    rules = nominal_zone(zone)
    edges = sorted({*(at for at, _ in offset_changes(zone)), *splits, HISTORY_START, HISTORY_END})
    starts: set[datetime] = set()
    for begin, end in pairwise(edges):
        low = index_of(unit, begin.astimezone(rules).date()) - 1
        high = index_of(unit, end.astimezone(rules).date()) + 1
        telling = {*range(low, min(low + 4, high + 1)), (low + high) // 2, *range(max(low, high - 3), high + 1)}
        starts.update(first_instant(zone, first_ordinal(unit, index)) for index in telling)
    return tuple(sorted(t for t in starts if HISTORY_START <= t <= HISTORY_END and not t.second))


def _offset(zone: str, instant: datetime) -> timedelta:
    return instant.astimezone(nominal_zone(zone)).utcoffset() or timedelta(0)


def _first_with_other_offset(zone: str, low: datetime, high: datetime) -> datetime:
    """Return the first second after `low` with another offset; the offset at `high` must differ from that at `low`."""
    before = _offset(zone, low)
    span = (high - low) // _SECOND
    below, above = 0, span
    while above - below > 1:
        middle = (below + above) // 2
        if _offset(zone, low + middle * _SECOND) == before:
            below = middle
        else:
            above = middle
    return low + above * _SECOND
