"""Finds windows with changed rows in a database, by a column with the time of each row's last change. Pure functions.

A scan reads the changes since a bound: the newest change that the previous scan saw, less a slack. The slack is needed
because a change may become visible later than its own time, by an open transaction or a slow clock. So a scan reads
some rows again. To detect new changes, each scan records two values for every window: the number of rows from its bound
on, and the sum of their times of change. A window whose values stay the same has not changed. Rows without a time of
change are always counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from waterclock.connectors.interface import ChangedWindows, ChangeScanRequest
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.similar_names import did_you_mean
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import nominal_zone

_DAY = timedelta(days=1)
_TICK = timedelta(seconds=1)
_SLACK = 3600
_NO_CHANGES = (0, 0, 0)

Tally = tuple[int, int, int]
"""Counts for a window: rows that changed since a bound, the sum of their times of change, and rows without a time."""


@dataclass(frozen=True, slots=True)
class Tallies:
    """The counts of each window since its bound (`of`), and the newest change in each window (`last`) and in all.

    `newest` is not later than the current time, because a time in the future would hide all changes before it.
    `unended` are windows with a change in the same second (or day, for a date) as the scan: a later change of the same
    row could have the same time.
    """

    of: Mapping[datetime, Tally]
    last: Mapping[datetime, datetime]
    newest: datetime | None
    unended: frozenset[datetime] = frozenset()


Bounds = Mapping[datetime, datetime | None]
"""The time from which changes are counted, by window start; None if all are counted."""


def find_changed_windows(
    request: ChangeScanRequest, unit: Unit, zone: str, tally: Callable[[Bounds], Tallies]
) -> ChangedWindows:
    """Return the windows whose counts differ from those that the last scan recorded, with the counts to record.

    `tally` counts the rows of each window that changed since the window's bound. The marks in the request have the
    bounds and counts of the last scan. The counts to record use a newer bound.
    """
    bounds: dict[datetime, datetime | None] = dict.fromkeys(window.start for window in request.windows)
    known: list[datetime] = []
    for start, mark in request.marks.items():
        bounds[start] = _read_instant(mark.of_all, "from")
        known += [newest for newest in (_read_instant(mark.of_all, "newest"),) if newest]
    there = tally(bounds)
    newest = max([*known, *([there.newest] if there.newest else [])], default=None)
    bound = None if newest is None else _subtract_change_slack(newest, unit, zone)
    changed = {
        start: _describe_change(request.change_column, there.last.get(start))
        for start, mark in request.marks.items()
        if [*there.of.get(start, _NO_CHANGES), False] != (mark.of_window or [*_NO_CHANGES, False])
    }
    above = tally(dict.fromkeys(bounds, bound))
    noted = {"newest": newest and newest.isoformat(), "from": bound and bound.isoformat()}
    of_window = {at: [*each, at in above.unended] for at, each in above.of.items() if each != _NO_CHANGES}
    return ChangedWindows(changed, noted, of_window)


def change_column_of(name: str, known: Sequence[str], unit: Unit) -> str:
    """Return the column of CHANGED BY in the spelling of the source. Raises E827 if it does not exist."""
    for column in known:
        if column.lower() == name.lower():
            return column
    raise WaterclockError(
        "E827",
        f"{unit} has no column {name}",
        where=str(unit),
        why=f"CHANGED BY {name} shows which windows changed; it has {', '.join(known)}",
        fix=did_you_mean(
            name, known, otherwise="name the column with the time of a row's last change, or leave CHANGED out"
        ),
    )


def change_time_error(name: str, what: str, unit: Unit) -> WaterclockError:
    """Build the error for a column of CHANGED BY that does not contain times; `what` describes its type."""
    return WaterclockError(
        "E827",
        f"{name} {what}, which is not a time",
        where=str(unit),
        why=f"CHANGED BY {name} needs a timestamp, a date or a number that counts from 1970, set by every change",
        fix="name the column with the time of a row's last change, or leave CHANGED out",
    )


class TallyCounter:
    """Adds up the change counts of windows. `clock` is the current time."""

    def __init__(self, windows: Iterable[Window], clock: datetime) -> None:
        self._of: dict[datetime, list[int]] = {window.start: [0, 0, 0] for window in windows}
        self._last: dict[datetime, datetime] = {}
        self._newest: datetime | None = None
        self._clock = clock
        self._unended: set[datetime] = set()

    def add(
        self, start: datetime, rows: int, total: int, untimed: int, last: datetime | None, tick: timedelta = _TICK
    ) -> None:
        """Add counts to a window: `rows` have a time of change, `total` is the sum of these times in microseconds.

        `untimed` rows have none. `last` is the newest time of change, and `tick` the resolution of these times.
        """
        tally = self._of[start]
        tally[0] += rows
        tally[1] += total
        tally[2] += untimed
        if last is not None:
            self._last[start] = max(last, self._last.get(start, last))
            if last <= self._clock:
                self._newest = max(last, self._newest or last)
            if last <= self._clock < last + tick:
                self._unended.add(start)

    def to_tallies(self) -> Tallies:
        """Return the accumulated tallies."""
        tallies = {at: (it[0], it[1], it[2]) for at, it in self._of.items()}
        return Tallies(tallies, self._last, self._newest, frozenset(self._unended))


def _subtract_change_slack(newest: datetime, unit: Unit, zone: str) -> datetime:
    """Subtract the option `change_slack`, and also a day if the zone's offset changes nearby, as local times repeat."""
    rules = nominal_zone(zone)
    has_offset_change = len({at.astimezone(rules).utcoffset() for at in (newest - _DAY, newest, newest + _DAY)}) > 1
    slack = timedelta(seconds=float(str(unit.options.get("change_slack", _SLACK))))
    return newest - slack - (_DAY if has_offset_change else timedelta(0))


def _read_instant(noted: Any, name: str) -> datetime | None:
    text = noted.get(name)
    return None if text is None else datetime.fromisoformat(str(text))


def _describe_change(column: str | None, last: datetime | None) -> str:
    return f"by {column}" if last is None else f"{column} up to {last:%Y-%m-%d %H:%M:%SZ}"
