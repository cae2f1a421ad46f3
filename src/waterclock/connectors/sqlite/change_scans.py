"""Counts the changed rows of windows in a SQLite database, in one pass over the rows and in bounded memory."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from waterclock.connectors.arrow_values import EPOCH_UNITS, Times, instant_of
from waterclock.connectors.sql.changed_windows import Bounds, Tallies, TallyCounter, change_time_error
from waterclock.connectors.sqlite.collection import window_conditions
from waterclock.connectors.sqlite.dialect import quote_identifier
from waterclock.flow.declarations import Unit
from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import nominal_zone

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)
# leaves out only rows that certainly changed before the bound; plain comparisons can use an index
_SINCE = (
    "({m} IS NULL OR typeof({m}) = 'blob' OR (typeof({m}) IN ('integer', 'real') AND {m} >= :since_number)"
    " OR (typeof({m}) = 'text' AND ({m} >= :since_text OR {m} NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*')"
    " AND CASE WHEN julianday({m}) IS NULL THEN 1"
    " WHEN {m} GLOB '*:[0-9][0-9]*[Zz+-]*' THEN julianday({m}) >= julianday(:since)"
    " ELSE julianday({m}) >= julianday(:since_local) END))"
)


@dataclass(frozen=True, slots=True)
class SqliteChangeScan:
    """A scan for changed rows: the columns with a row's data time and its last change, and the windows in order."""

    unit: Unit
    source: str
    time_column: str
    change_column: str
    windows: tuple[Window, ...]
    times: Times

    def tally(self, connection: sqlite3.Connection, bounds: Bounds) -> Tallies:
        """Count the rows of each window that changed at or after the window's bound.

        Raises E827 for a value in the change column that is not a time.
        """
        starts = [window.start for window in self.windows]
        counting = TallyCounter(self.windows, datetime.now(UTC))
        for time, change in self._rows(connection, bounds):
            at = instant_of(time, self.times)
            place = bisect_right(starts, at) - 1 if at else -1
            if at is None or place < 0 or at >= self.windows[place].end:
                continue
            changed = instant_of(change, self.times)
            if changed is None:
                if change is not None:
                    raise change_time_error(self.change_column, f"holds {change!r}", self.unit)
                counting.add(starts[place], 0, 0, 1, None)
                continue
            bound = bounds[starts[place]]
            if bound is None or changed >= bound:
                tick = _DAY if isinstance(change, str) and ":" not in change else _SECOND
                counting.add(starts[place], 1, (changed - EPOCH) // _MICROSECOND, 0, changed, tick)
        return counting.to_tallies()

    def _rows(self, connection: sqlite3.Connection, bounds: Bounds) -> Iterator[tuple[object, object]]:
        names = quote_identifier(self.time_column), quote_identifier(self.change_column)
        condition, values = window_conditions(self.time_column, self.windows, self.times)
        oldest = None if None in bounds.values() else min(bound for bound in bounds.values() if bound)
        if oldest is not None:
            condition += f" AND {_SINCE.format(m=names[1])}"
            values = {**values, **_bind_bound(oldest, self.times)}
        yield from connection.execute(f"SELECT {', '.join(names)} FROM {self.source} WHERE {condition}", values)


def _bind_bound(bound: datetime, times: Times) -> dict[str, object]:
    low = bound - _SECOND
    rules = nominal_zone(times.zone)
    is_set = len({at.astimezone(rules).utcoffset() for at in (low - _DAY, low, low + _DAY)}) > 1
    local = (low - _DAY if is_set else low).astimezone(rules)
    return {
        "since_number": (low - EPOCH) / EPOCH_UNITS[times.epoch],
        "since_text": f"{low - 2 * _DAY:%Y-%m-%d}",
        "since": f"{low:%Y-%m-%d %H:%M:%S}",
        "since_local": f"{local:%Y-%m-%d %H:%M:%S}",
    }
