"""Asks a PostgreSQL database which windows hold rows that changed: the server adds them up, by minutes of their times.

Which window a minute lies in is decided here, by the zones that windows are cut by; so what comes is at most a row for
each minute of the windows and each bound, whatever changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from waterclock.connectors.changed_rows import Bounds, Counting, Tallies, change_column_of, no_time_of_change
from waterclock.connectors.postgres.database import quoted, source_of
from waterclock.connectors.postgres.extract import TIMES, micros, within
from waterclock.connectors.postgres.types import SqlColumn
from waterclock.connectors.values import EPOCH_UNITS, Times, instant_of
from waterclock.connectors.window_bounds import WindowFilter, bound_of
from waterclock.flow.declarations import Unit
from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_MICROSECOND = timedelta(microseconds=1)
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ChangedIn:
    """Where to look: the windows by the rows' own time, and the column of their last change with its type."""

    unit: Unit
    by_window: WindowFilter
    change: WindowFilter
    times: Times

    def tally(self, connection: Connection, bounds: Bounds) -> Tallies:
        """Add up what lies in each window at or above its bound."""
        windows = self.by_window.windows
        starts = [window.start for window in windows]
        limits = sorted({self._count(bound) for bound in bounds.values() if bound is not None})
        tick = _DAY if self.change.kind == "date" else timedelta(seconds=1)
        counting = Counting(windows, datetime.now(UTC))
        for minute, above, rows, total, unsaid, last in self._rows(connection, bounds, limits):
            at = self._instant(minute, self.by_window.kind)
            place = bisect_right(starts, at) - 1
            if place < 0 or at >= windows[place].end:
                continue
            bound = bounds[starts[place]]
            if bound is not None and above <= limits.index(self._count(bound)):
                rows, total, last = 0, 0, None  # noqa: PLW2901 - they lie below the bound of their window
            newest = None if last is None else self._instant(int(last), self.change.kind)
            counting.add(starts[place], int(rows), int(total or 0), int(unsaid), newest, tick)
        return counting.done()

    def _rows(
        self, connection: Connection, bounds: Bounds, limits: Sequence[int]
    ) -> Iterator[tuple[int, int, int, int, int, int | None]]:
        unit = 60_000_000 if self.by_window.kind not in _COUNTS else _MINUTE // EPOCH_UNITS[self.times.epoch]
        name, change = quoted(self.change.time_column), micros(self.change)
        if self.change.kind not in _COUNTS:
            change = f"CASE WHEN isfinite({name}) THEN {change} END"
        above = f"coalesce(width_bucket({change}, ARRAY{list(limits)}::bigint[]), 0)" if limits else "0"
        condition = within(self.by_window, self.times)
        oldest = min((bound for bound in bounds.values() if bound is not None), default=None)
        if oldest is not None and None not in bounds.values():
            # for an index; a day wider, as local times do not ascend where a clock is set: the limits are exact
            low = bound_of(oldest - _DAY, self.change.kind, self.times)
            condition += f" AND ({name} >= {low} OR {name} IS NULL)"
        clock = self._count(datetime.now(UTC))
        yield from connection.execute(
            f"SELECT floor({micros(self.by_window)}::numeric / {unit})::bigint * {unit}, {above},"
            f" count({change}), sum({change}::numeric), count(*) - count({change}),"
            f" coalesce(max({change}) FILTER (WHERE {change} <= {clock}), max({change}))"
            f" FROM {source_of(self.unit)} WHERE {condition} GROUP BY 1, 2"
        )

    def _instant(self, count: int, kind: str) -> datetime:
        """Read a time as the server counts it: of one without a zone, as if it were in UTC."""
        if kind in _COUNTS:
            return EPOCH + count * EPOCH_UNITS[self.times.epoch]
        at = EPOCH + count * _MICROSECOND
        found = at if kind == "timestamptz" else instant_of(at.replace(tzinfo=None), self.times)
        return found or at

    def _count(self, at: datetime) -> int:
        """Write an instant as the server counts times of change."""
        if self.change.kind in _COUNTS:
            return -(-(at - EPOCH) // EPOCH_UNITS[self.times.epoch])
        if self.change.kind == "timestamptz":
            return (at - EPOCH) // _MICROSECOND
        local = at.astimezone(nominal_zone(self.times.zone)).replace(tzinfo=UTC)
        return (local - EPOCH) // _MICROSECOND


_COUNTS = frozenset({"int2", "int4", "int8"})


def changed_by(name: str, there: Sequence[SqlColumn], unit: Unit) -> WindowFilter:
    """Return the column of CHANGED BY with its type.

    Raises  E827 where it is not there, or holds no times
    """
    spelt = change_column_of(name, [column.name for column in there], unit)
    column = next(column for column in there if column.name == spelt)
    if column.is_array or column.kind not in TIMES:
        raise no_time_of_change(spelt, f"is of type {column.kind}{'[]' if column.is_array else ''}", unit)
    return WindowFilter(spelt, column.kind, ())
