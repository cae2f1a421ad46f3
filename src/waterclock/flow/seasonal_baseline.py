"""Computes the usual value of a measure at a label, its spread, and its trend, from the values of earlier labels.

The usual value is the median of earlier values of the same season, moved by the recent level. A season is the weekday
for windows of a day, and the weekday and hour for shorter ones, in the table's zone. Windows longer than an hour start
at fixed hours of UTC, so their local hours are computed with one offset. Otherwise, when the clock changes, all windows
would be at hours without a history.
Nonnegative values are compared by their ratios (as logarithms), because ten percent more mean the same on any day;
other values by their differences. If all values are whole numbers, they are treated as counts, whose random spread is
their square root. The spread is 1.4826 times the median absolute deviation of the residuals, which is stable until half
of the values are outliers.

`trend` compares the recent level with an earlier one, to detect a slow change of a little each day.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from statistics import median

from waterclock.timelabel.zone import nominal_zone

MOST_BACK = timedelta(weeks=8)
"""The longest time before a label from which values are used."""
MOST_VALUES = 4500
"""The maximum number of values; the newest are used. It covers 8 weeks of hours, or over 2 weeks of 5 minutes."""
LEAST_MINUTES = 5
"""The shortest windows, in minutes, for which `MOST_VALUES` values cover two weeks."""
LEAST_SEASONS = timedelta(weeks=2)
"""The shortest history from which a usual value is computed. It contains two weekends."""
LEAST_VALUES = 8
LEAST_MINUTES_OF_TREND = 60
"""The shortest windows, in minutes, for which `trend` is computed."""
LEAST_IN_LEVEL = 4
LEAST_DAYS, MOST_DAYS = 14, 120
"""The limits of `days` in `trend`. From 14 on, both levels have no common window; up to 120 days have fewer hours than
`MOST_VALUES`."""
MOST_OF_LONG = 500
"""The maximum number of values for windows longer than a day."""
_WHOLE_WEEKS = timedelta(weeks=4)
LONGER = timedelta(hours=36)  # longer than a day, which has 23 to 25 hours
_DAILY = timedelta(hours=20)
_HOUR = timedelta(hours=1)
_MOST_LOG = 709.0  # the logarithm of about the largest DOUBLE
SATURDAY = 5
_MAD_TO_SIGMA = 1.4826
_LEAST_SPREAD = 0.05  # of the ratio: deviations of less than 5 percent are not reported
_WIDTH_OF_DAYS = 14
_WIDTH = 24  # the number of values in the recent level


@dataclass(frozen=True, slots=True)
class Usual:
    """The usual value at one label, `middle`, and its `spread`.

    If `is_ratio`, both are computed from logarithms of values plus `offset`, which is added because 0 has no logarithm.
    """

    middle: float
    spread: float
    is_ratio: bool
    offset: float = 1.0

    def at(self, scales: float = 0.0) -> float:
        """Return the usual value plus `scales` spreads, in the unit of the values."""
        moved = self.middle + scales * self.spread
        if not self.is_ratio:
            return moved
        return max(math.exp(moved) - self.offset, 0.0) if moved < _MOST_LOG else math.inf


def usual(history: Sequence[tuple[datetime, float]], at: datetime, *, step: timedelta, zone: str) -> Usual | None:
    """Return the usual value at the label `at`, given values of earlier labels in any order; None if they are too few.

    `step` is the approximate length of a window. Ignored are labels at or after `at`, labels more than 8 weeks before
    it (unless windows are longer than a day), and values that are not finite numbers.
    """
    is_long = step > LONGER  # then no season repeats, and all values are treated alike
    known = sorted(
        (label, value)
        for label, value in history
        if label < at and (is_long or label >= at - MOST_BACK) and math.isfinite(value)
    )[-(MOST_OF_LONG if is_long else MOST_VALUES) :]
    if len(known) < LEAST_VALUES or (not is_long and at - known[0][0] < LEAST_SEASONS):
        return None
    is_ratio = all(value >= 0 for _, value in known)
    is_count = all(float(value).is_integer() for _, value in known)
    offset = _offset([value for _, value in known], is_count=is_count)
    values = [math.log(value + offset) if is_ratio else value for _, value in known]
    slot_of = _slots(step, at - known[0][0], slot_clock(zone, step, at))
    slots = [slot_of(label) for label, _ in known]
    profile = _medians(slots, values)
    everywhere = median(values)
    # the recent level moves all seasons up and down: `residuals` contain it, `deviations` do not
    residuals = [value - profile[slot] for slot, value in zip(slots, values, strict=True)]
    width = _WIDTH_OF_DAYS if step >= _DAILY else _WIDTH
    levels = _running_medians(residuals, width)
    level = levels[-1]
    # each value is compared with the level before it; the first `width` values are compared with their common level
    deviations = [value - levels[max(index, width) - width] for index, value in enumerate(residuals)]
    spread = _MAD_TO_SIGMA * median(abs(each) for each in deviations)
    middle = profile.get(slot_of(at), everywhere) + level
    floor = _counting_spread(math.exp(min(middle, _MOST_LOG)) - offset) if is_ratio and is_count else _LEAST_SPREAD
    least = floor if is_ratio else abs(middle) * _LEAST_SPREAD
    return Usual(middle, max(spread, least), is_ratio, offset)


def trend(
    history: Sequence[tuple[datetime, float]], at: datetime, *, days: int, step: timedelta, zone: str
) -> float | None:
    """Return the ratio of the level in the two weeks before a label to that in the two weeks `days` earlier.

    A level is the median of values relative to their season. `history` is in any order; labels at or after `at` and
    values that are not finite numbers are ignored. `step` is the approximate length of a window. If two weeks have
    fewer than four windows, a level covers four. Return None if a level has fewer than four values, or a value is below
    zero.
    """
    span = max(LEAST_SEASONS, LEAST_IN_LEVEL * step)
    low = at - timedelta(days=days)
    known = sorted((label, value) for label, value in history if low - span <= label < at and math.isfinite(value))
    if not known or any(value < 0 for _, value in known):
        return None
    offset = _offset([value for _, value in known], is_count=all(float(value).is_integer() for _, value in known))
    values = [math.log(value + offset) for _, value in known]
    slot_of = _slots(step, at - known[0][0], slot_clock(zone, step, at))
    slots = [slot_of(label) for label, _ in known]
    profile = _medians(slots, values)
    residuals = [(label, value - profile[slot]) for (label, _), slot, value in zip(known, slots, values, strict=True)]
    then = [value for label, value in residuals if label < low]
    late = [value for label, value in residuals if label >= at - span]
    if min(len(then), len(late)) < LEAST_IN_LEVEL:
        return None
    return math.exp(min(median(late) - median(then), _MOST_LOG))


def _running_medians(values: Sequence[float], width: int) -> list[float]:
    """Return the running medians over `width` values; if there are fewer values, only their median."""
    window = sorted(values[:width])
    found = [median(window)]
    for gone, come in zip(values, values[width:], strict=False):
        del window[bisect_left(window, gone)]
        insort(window, come)
        found.append((window[(width - 1) // 2] + window[width // 2]) / 2)
    return found


def _offset(values: Sequence[float], *, is_count: bool) -> float:
    """Return the offset added before logarithms are taken: 1 for counts, a small part of the median for shares."""
    positive = [] if is_count else [value for value in values if value > 0]
    # a median of subnormal numbers would give 0, which has no logarithm
    return min(1.0, max(_LEAST_SPREAD * median(positive), sys.float_info.min)) if positive else 1.0


def _counting_spread(middle: float) -> float:
    """Return the minimum spread of a count: 5 percent, or for small numbers their random spread."""
    return max(_LEAST_SPREAD, 1 / math.sqrt(max(middle, 1.0)))


def _medians(slots: Sequence[Hashable], values: Sequence[float]) -> Mapping[Hashable, float]:
    by_slot: dict[Hashable, list[float]] = {}
    for slot, value in zip(slots, values, strict=True):
        by_slot.setdefault(slot, []).append(value)
    return {slot: median(found) for slot, found in by_slot.items()}


def slot_clock(zone: str, step: timedelta, at: datetime) -> tzinfo:
    """Return the tzinfo for seasons: the time zone, or for windows of several hours its fixed offset at `at`."""
    rules = nominal_zone(zone)
    is_of_hours = _HOUR < step < _DAILY
    return timezone(at.astimezone(rules).utcoffset() or timedelta()) if is_of_hours else rules


def _slots(step: timedelta, length: timedelta, clock: tzinfo) -> Callable[[datetime], Hashable]:
    """Return a function that maps a label to its season.

    With less than 4 weeks of history all workdays are one season.
    """
    if step > LONGER:
        return lambda _: 0
    is_long = length >= _WHOLE_WEEKS

    def slot(label: datetime) -> Hashable:
        local = label.astimezone(clock)
        day = local.weekday() if is_long else max(local.weekday(), SATURDAY - 1)
        return day if step >= _DAILY else (day, local.hour)

    return slot
