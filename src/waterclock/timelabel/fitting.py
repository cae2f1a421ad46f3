"""Checks whether the windows of one cadence consist of whole windows of another."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from math import log

from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.period import MINUTE_COUNTS, Period, TimeUnit, first_ordinal, index_of
from waterclock.timelabel.zone import first_instant, nominal_zone
from waterclock.timelabel.zone_history import offset_changes, sample_window_starts

# When a window of a calendar unit begins, a window of each of these units begins, too
_MADE_OF = {
    TimeUnit.DAY: {TimeUnit.DAY},
    TimeUnit.WEEK: {TimeUnit.DAY, TimeUnit.WEEK},
    TimeUnit.MONTH: {TimeUnit.DAY, TimeUnit.MONTH},
    TimeUnit.QUARTER: {TimeUnit.DAY, TimeUnit.MONTH, TimeUnit.QUARTER},
    TimeUnit.YEAR: {TimeUnit.DAY, TimeUnit.MONTH, TimeUnit.QUARTER, TimeUnit.YEAR},
}
_LEGAL = tuple(Period(unit) for unit in TimeUnit if unit is not TimeUnit.MINUTE) + tuple(
    Period(TimeUnit.MINUTE, count) for count in MINUTE_COUNTS
)


def consists_of_windows(reader: Cadence, read: Cadence) -> bool:
    """Return whether every window of `reader` consists of whole windows of `read`, in the years 1971 to 2100.

    Windows that no label can name (in a zone whose offset has seconds) are ignored. The result is computed from the
    zones' offset changes, in some milliseconds for each pair of zones, and cached.
    """
    return _fits(reader.period, _zone(reader), read.period, _zone(read))


def nearest_fitting_cadence(reader: Cadence, read: Cadence) -> Cadence:
    """Return the cadence nearest to `reader` in length whose windows consist of whole windows of `read`.

    The result has the reader's delay. It has the reader's zone if any length fits in that zone, else the zone of
    `read`.
    """
    for zone in (reader.zone, read.zone):
        fitting = [period for period in _LEGAL if consists_of_windows(Cadence(period, zone=zone), read)]
        if fitting:
            length = reader.period.minutes
            best = min(fitting, key=lambda period: (abs(log(period.minutes / length)), -period.minutes))
            return Cadence(best, reader.delay, zone)
    return Cadence(read.period, reader.delay, read.zone)


def _zone(cadence: Cadence) -> str:
    """Return the zone in which the cadence's windows begin: UTC for minutes and hours."""
    return "UTC" if cadence.period.unit is TimeUnit.MINUTE else cadence.zone


@cache
def _fits(reader: Period, reader_zone: str, read: Period, read_zone: str) -> bool:
    if read.unit is TimeUnit.MINUTE:
        if reader.unit is TimeUnit.MINUTE:
            return reader.count % read.count == 0
        starts = sample_window_starts(reader_zone, reader.unit)
        return all((start - EPOCH).total_seconds() % (read.count * 60) == 0 for start in starts)
    if reader.unit is TimeUnit.MINUTE:
        if reader.count != Period(TimeUnit.DAY).minutes:
            return False
        reader = Period(TimeUnit.DAY)
    if read.unit not in _MADE_OF[reader.unit]:
        return False
    if reader_zone == read_zone:
        return True
    splits = tuple(at for at, _ in offset_changes(read_zone))
    return all(
        _is_start(start, read.unit, read_zone) for start in sample_window_starts(reader_zone, reader.unit, splits)
    )


def _is_start(t: datetime, unit: TimeUnit, zone: str) -> bool:
    index = index_of(unit, t.astimezone(nominal_zone(zone)))
    return any(first_instant(zone, first_ordinal(unit, near)) == t for near in (index, index + 1))
