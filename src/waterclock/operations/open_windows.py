"""Describes the open windows of tables with a speed table: their number, and as of when they can be queried."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from waterclock.flow.open_windows import open_windows_table, view_of
from waterclock.operations.formatting import count_words, instant_words
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from waterclock.operations.project_opening import OpenedProject

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class OpenWindows:
    """The open windows of a table. `windows` is their number, `first` the start of the oldest.

    `shown`: the instant up to which their rows can be queried now; None if the speed table has no batch yet.
    """

    table: str
    zone: str
    windows: int
    first: datetime
    shown: datetime | None

    def words(self) -> str:
        """Describe the open windows in a line."""
        begun = f"{count_words(self.windows, 'window')} open from {label_of(self.first)} on"
        if self.shown is None:
            return f"{begun}; {view_of(self.table)} does not show them yet"
        return f"{begun}; {view_of(self.table)} shows them as of {instant_words(self.shown, self.zone)}"


def open_windows(at: OpenedProject, names: Collection[str]) -> dict[str, OpenWindows]:
    """Return the open windows of the tables that have a speed table. Cost: computing the due windows of each."""
    return {found.table: found for name in names for found in _find_open_windows(at, name)}


def _find_open_windows(at: OpenedProject, name: str) -> Iterator[OpenWindows]:
    speed_table = open_windows_table(at.flow, name)
    if speed_table is None:
        return
    books = at.planner.books_of(at.snapshot, at.now, name)
    cadence = books.table.cadence
    begun, first = cadence.window_of(at.now - _INSTANT), books.first_open()
    start = max(books.starts[name], begun.start if first is None else first.start)
    made = list(at.snapshot.of(speed_table.name).covered)
    count = cadence.count(start, max(begun.end, start))
    yield OpenWindows(name, cadence.zone, count, start, made[-1][1] if made else None)
