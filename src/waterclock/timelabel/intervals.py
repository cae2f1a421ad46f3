"""Represents sets of instants, such as covered time, as sorted, disjoint, half-open intervals."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from waterclock.errors import WaterclockError
from waterclock.timelabel.instant import utc_of
from waterclock.timelabel.window import Window

Interval = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """An immutable set of instants: sorted intervals `[start, end)` that neither overlap nor touch.

    Build it with `from_intervals`, `from_windows` or `merge`; `IntervalSet()` is empty. Iteration yields (start, end).
    A lookup costs O(log n). Adding an interval after the last one only copies pointers.
    """

    _starts: tuple[datetime, ...] = ()
    _ends: tuple[datetime, ...] = ()

    @classmethod
    def from_intervals(cls, intervals: Iterable[Interval]) -> IntervalSet:
        """Build the set of all instants of the intervals, which may overlap and have any order.

        An interval that ends where it starts is empty. Raises E108 for one that ends before it starts.
        """
        ordered = sorted(_check_interval(start, end) for start, end in intervals)
        starts: list[datetime] = []
        ends: list[datetime] = []
        for start, end in ordered:
            if start == end:
                continue
            if ends and start <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)
        return cls(tuple(starts), tuple(ends))

    @classmethod
    def from_windows(cls, windows: Iterable[Window]) -> IntervalSet:
        """Build the set of all instants of the windows."""
        return cls.from_intervals((window.start, window.end) for window in windows)

    @classmethod
    def merge(cls, sets: Iterable[Iterable[Interval]]) -> IntervalSet:
        """Return the union of any number of sets, or of iterables of intervals, at the cost of one sort."""
        return cls.from_intervals(chain.from_iterable(sets))

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Interval]:
        return zip(self._starts, self._ends, strict=True)

    def __repr__(self) -> str:
        spans = ", ".join(f"{start:%Y-%m-%dT%H:%M:%S}..{end:%Y-%m-%dT%H:%M:%S}" for start, end in self)
        return f"IntervalSet({spans})"

    def __or__(self, other: IntervalSet) -> IntervalSet:
        if not other:
            return self
        if not self:
            return other
        if self._ends[-1] < other._starts[0]:
            return IntervalSet(self._starts + other._starts, self._ends + other._ends)
        if self._ends[-1] == other._starts[0]:
            return IntervalSet(self._starts + other._starts[1:], self._ends[:-1] + other._ends)
        return IntervalSet.merge((self, other))

    def __and__(self, other: IntervalSet) -> IntervalSet:
        found: list[Interval] = []
        few, many = sorted((self, other), key=len)
        for start, end in few:
            found += many._within(start, end)
        return IntervalSet._of(found)

    def __sub__(self, other: IntervalSet) -> IntervalSet:
        left: list[Interval] = []
        for start, end in self:
            left += other._gaps(start, end)
        return IntervalSet._of(left)

    def union(self, other: IntervalSet) -> IntervalSet:
        """Return the instants in either set; the same as `|`."""
        return self | other

    def intersection(self, other: IntervalSet) -> IntervalSet:
        """Return the instants in both sets; the same as `&`."""
        return self & other

    def difference(self, other: IntervalSet) -> IntervalSet:
        """Return the instants of this set that are not in the other; the same as `-`."""
        return self - other

    def add(self, start: datetime, end: datetime) -> IntervalSet:
        """Return this set with `[start, end)` added."""
        return self | IntervalSet.from_intervals([(start, end)])

    def covers(self, start: datetime, end: datetime) -> bool:
        """Return whether all of `[start, end)` is in the set; an empty span always is."""
        start, end = _check_interval(start, end)
        if start == end:
            return True
        at = bisect_right(self._starts, start) - 1
        return at >= 0 and end <= self._ends[at]

    def covers_instant(self, t: datetime) -> bool:
        """Return whether the instant is in the set."""
        t = utc_of(t)
        at = bisect_right(self._starts, t) - 1
        return at >= 0 and t < self._ends[at]

    def overlaps(self, start: datetime, end: datetime) -> bool:
        """Return whether any interval of the set begins before `end` and ends after `start`."""
        start, end = _check_interval(start, end)
        return bisect_right(self._ends, start) < bisect_left(self._starts, end)

    def first_gap(self, start: datetime, end: datetime) -> Interval | None:
        """Return the oldest maximal span within `[start, end)` that is not in the set; None if all is covered."""
        start, end = _check_interval(start, end)
        return next(self._gaps(start, end), None)

    def gaps(self, start: datetime, end: datetime) -> IntervalSet:
        """Return the instants of `[start, end)` that are not in this set."""
        start, end = _check_interval(start, end)
        return IntervalSet._of(list(self._gaps(start, end)))

    @classmethod
    def _of(cls, ordered: list[Interval]) -> IntervalSet:
        """Build a set from intervals known to be sorted, disjoint and not touching."""
        return cls(tuple(start for start, _ in ordered), tuple(end for _, end in ordered))

    def _within(self, start: datetime, end: datetime) -> Iterator[Interval]:
        for at in range(bisect_right(self._ends, start), bisect_left(self._starts, end)):
            yield max(start, self._starts[at]), min(end, self._ends[at])

    def _gaps(self, start: datetime, end: datetime) -> Iterator[Interval]:
        for begin, stop in self._within(start, end):
            if start < begin:
                yield start, begin
            start = stop
        if start < end:
            yield start, end


def _check_interval(start: datetime, end: datetime) -> Interval:
    start, end = utc_of(start), utc_of(end)
    if end < start:
        raise WaterclockError(
            "E108",
            f"an interval from {start.isoformat()} to {end.isoformat()} ends before it starts",
            why="an interval is half-open, [start, end)",
            fix="swap its ends",
        )
    return start, end
