"""Computes the first window of each table, which begins at its START: when it ends, and when it is due."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.operations.formatting import instant_words, local_label
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from waterclock.operations.project_opening import OpenedProject


@dataclass(frozen=True, slots=True)
class FirstWindow:
    """The first window of a table, which begins at its START."""

    window: Window
    cadence: Cadence

    @property
    def due(self) -> datetime:
        """The instant at which the batch of the window is due: the window's end plus the DELAY of the table."""
        return self.cadence.due_at(self.window)

    @property
    def local(self) -> str:
        """The label of the window as a date or time in the table's zone."""
        return local_label(self.window.start, self.cadence)

    def words(self) -> str:
        """Format the window: `2026-11-20, closes 2026-11-21 00:00Z`, plus the due instant if that is later."""
        zone = self.cadence.zone
        described = f"{self.local}, closes {instant_words(self.window.end, zone)}"
        return described if self.due == self.window.end else f"{described}, due {instant_words(self.due, zone)}"


def first_windows(at: OpenedProject, names: Collection[str]) -> dict[str, FirstWindow]:
    """Map each of the given tables to its first window."""
    starts = at.planner.starts(at.snapshot, at.now)
    cadences = {name: at.flow.tables[name].cadence for name in names}
    return {name: FirstWindow(of.window_of(starts[name]), of) for name, of in cadences.items()}


def find_pending_first_windows(at: OpenedProject, names: Collection[str]) -> dict[str, FirstWindow]:
    """Map the given tables whose first window is not due yet to that window."""
    return {name: first for name, first in first_windows(at, names).items() if first.due > at.now}


def not_begun_lines(firsts: Mapping[str, FirstWindow]) -> list[str]:
    """Format tables that have not started: a line for each first window, with all tables that begin at it."""
    together: dict[str, list[str]] = {}
    for name, first in firsts.items():
        together.setdefault(first.words(), []).append(name)
    return [f"not started: {', '.join(names)}; first window {words}" for words, names in together.items()]
