"""Builds SQL conditions for the rows of windows, for PostgreSQL and similar databases, so that an index can be used.

The conditions may also match rows outside of the windows. This process then determines the window of each row by its
time in microseconds (`labels_of`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from waterclock.connectors.arrow_values import EPOCH_UNITS, Times
from waterclock.connectors.local_times import local_micros_to_instants
from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class WindowFilter:
    """Selects the rows whose `time_column` is in one of the ascending windows.

    `kind` is the kind of the column: `timestamptz`, `timestamp`, `date`, or a text that begins with `int`.
    """

    time_column: str
    kind: str
    windows: tuple[Window, ...]

    @property
    def is_local(self) -> bool:
        """True if the times have no zone."""
        return self.kind != "timestamptz" and not self.is_number

    @property
    def is_number(self) -> bool:
        """True if the times are numbers that count from 1970."""
        return self.kind.startswith("int")


def window_range_condition(name: str, by_window: WindowFilter, times: Times) -> str:
    """Return the SQL condition for the times from the first to the last window; `name` is the time column in SQL."""
    start, end = by_window.windows[0].start, by_window.windows[-1].end
    if not by_window.is_local:
        first, last = (format_time_literal(bound, by_window.kind, times) for bound in (start, end))
        return f"{name} >= {first} AND {name} < {last}"
    low, high = local_bounds(start, end, times.zone)
    return f"{name} >= {local_literal(low)} AND {name} < {local_literal(high)}"


def cuts_of(by_window: WindowFilter, times: Times, count: int) -> list[datetime]:
    """Return the times that split the windows, and a day before and after them, into `count` parts of equal length.

    The parts are read in parallel. For a column without a zone these are local times.
    """
    start, end = by_window.windows[0].start - _DAY, by_window.windows[-1].end + _DAY
    cuts = [start + (end - start) * at / count for at in range(1, count)]
    if not by_window.is_local:
        return cuts
    rules = nominal_zone(times.zone)
    return sorted({cut.astimezone(rules).replace(tzinfo=None) for cut in cuts})


def part_conditions(name: str, cuts: Sequence[str]) -> Iterator[str]:
    """Yield the SQL condition of each part into which the values `cuts` split the rows; `name` is the column."""
    if not cuts:
        return
    yield f"{name} < {cuts[0]}"
    for low, high in pairwise(cuts):
        yield f"{name} >= {low} AND {name} < {high}"
    yield f"{name} >= {cuts[-1]}"


def format_time_literal(at: datetime, kind: str, times: Times) -> str:
    """Format an instant as an SQL literal for a time column of this kind."""
    if kind.startswith("int"):
        return str(-(-(at - EPOCH) // EPOCH_UNITS[times.epoch]))
    if kind == "timestamptz":
        return f"'{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00'::timestamptz"
    return local_literal(at.astimezone(nominal_zone(times.zone)))


def local_literal(at: datetime) -> str:
    """Format a local time as an SQL timestamp literal."""
    return f"'{at:%Y-%m-%d %H:%M:%S.%f}'::timestamp"


def labels_of(instants: npt.NDArray[np.int64], windows: Sequence[Window]) -> tuple[pa.Array, pa.Array]:
    """Return the label of each row by its instant in microseconds since 1970, and whether the row is in any window."""
    import numpy as np
    import pyarrow as pa

    starts = np.array([_micros_of(window.start) for window in windows], dtype="int64")
    ends = np.array([_micros_of(window.end) for window in windows], dtype="int64")
    at = np.searchsorted(starts, instants, side="right") - 1
    kept = (at >= 0) & (instants < ends[at])
    texts = pa.array([window.label for window in windows], pa.string())
    return texts.take(pa.array(np.maximum(at, 0))), pa.array(kept)


def instants_of_counts(counts: npt.NDArray[np.int64], by_window: WindowFilter, times: Times) -> npt.NDArray[np.int64]:
    """Convert times that a database returned as numbers to instants in microseconds since 1970.

    A database counts a time without a zone as if it were in UTC, and a number in its own unit.
    """
    if by_window.is_number:
        return counts * (EPOCH_UNITS[times.epoch] // timedelta(microseconds=1))
    return local_micros_to_instants(counts, times.zone) if by_window.is_local else counts


def _micros_of(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def local_bounds(start: datetime, end: datetime, zone: str) -> tuple[datetime, datetime]:
    """Convert the bounds of a span to local times, a day wider if the zone's offset may change nearby."""
    rules = nominal_zone(zone)
    offsets = {at.astimezone(rules).utcoffset() for at in (start - _DAY, start, end, end + _DAY)}
    margin = timedelta(0) if len(offsets) == 1 and end - start <= 7 * _DAY else _DAY
    # a date is compared as midnight of its day
    return (start - margin).astimezone(rules), (end + margin).astimezone(rules) + (_SECOND if margin else timedelta(0))
