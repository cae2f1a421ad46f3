"""Maintains tables next to a watching run, in the hours of `[maintenance]`, from a thread of its own."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from waterclock.engine.background_thread import BackgroundThread
from waterclock.engine.ledger_export import export_ledger
from waterclock.engine.maintenance.maintain import (
    CountAndBytes,
    TableMaintenance,
    find_maintenance,
    is_rebuilding,
    maintain_table,
)
from waterclock.engine.maintenance.project_maintenance import maintain_others, tables_with_batches
from waterclock.engine.newer_flow import has_newer_flow
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error
from waterclock.flow.maintenance_hours import MaintenanceHours
from waterclock.ledger.read.source_events import MAINTENANCE
from waterclock.timelabel.window import Window

_LOOK_SECONDS = 30.0
_JOIN_SECONDS = 60.0
_TOGETHER = 20  # tables that are searched at once; what was found for the last one is then not much older


class MaintenanceInHours(BackgroundThread):
    """Maintains the tables of a run while the block runs, as a context manager: each once in the hours of a day.

    `only`: the tables of the run, None for all. A table with a running batch is tried again later. Before a table is
    changed, an event is recorded, so that another runner leaves it out; one that is killed then is maintained on the
    next day. An error is reported once, and does not affect the batches of the run.
    """

    def __init__(self, work: RunContext, only: Collection[str] | None = None) -> None:
        super().__init__("maintenance", most_seconds=_JOIN_SECONDS)
        self._work = work
        self._only = None if only is None else frozenset(only)
        self._window: Window | None = None
        self._begun: set[str] = set()
        self._finished: set[str] = set()

    def _run(self) -> None:
        while True:
            try:
                self.maintain_due(self._work.real_now())
            except Exception as raised:  # noqa: BLE001 - the batches of the run do not depend on maintenance
                self._work.report_once(f"maintenance failed: {to_error(raised, where='maintenance').what}")
            if self._done.wait(_LOOK_SECONDS):
                return

    def maintain_due(self, now: datetime) -> None:
        """Maintain the tables that were not yet maintained in the hours that contain `now`; nothing outside of them."""
        work, hours = self._work, self._work.project.maintenance
        window = None if hours is None else hours.window_at(now)
        if hours is None or window is None or is_rebuilding(work) or has_newer_flow(work, is_reported=False):
            return
        if window != self._window:
            export_ledger(work.ledger, work.lake.root)  # first, so that it contains what is removed afterwards
            maintain_others(work, now, is_whole=self._only is None, is_dry=False)
            self._window, self._begun, self._finished = window, set(), set()
        due = [name for name in tables_with_batches(work, self._only) if name not in self._finished]
        for first in range(0, len(due), _TOGETHER):
            for found in find_maintenance(work, due[first : first + _TOGETHER], now):
                if self._done.is_set() or not window.contains(work.real_now()):
                    return
                if found.is_nothing:
                    self._finished.add(found.table)
                elif not found.is_busy:
                    self._maintain(found, window, hours, now)

    def _maintain(self, found: TableMaintenance, window: Window, hours: MaintenanceHours, now: datetime) -> None:
        """Maintain a table, unless another runner began it in these hours. One that is busy now stays due."""
        work, name = self._work, found.table
        begun = work.ledger.past.read_last_maintenance(tables_with_batches(work, None))
        begun = {of: event for of, event in begun.items() if event.at >= window.start}
        left = hours.join_bytes - sum(int(event.data["joined"]) for of, event in begun.items() if of != name)
        if found.joined.bytes > left:
            work.report_once(
                f"{name}: only some of its small files are joined, or none: the limit of [maintenance] is reached"
            )
            found.small = found.small.up_to(left)
            found.joined = CountAndBytes(found.small.files, found.small.bytes)
        if found.is_nothing or (name in begun and name not in self._begun):
            self._finished.add(name)
            return
        data = {"joined": found.joined.bytes, "freed": found.freed_bytes}
        work.ledger.past.add_event(MAINTENANCE, who=work.settings.who, table=name, run=work.run, data=data)
        self._begun.add(name)
        maintain_table(work, found, now)
        if found.is_busy:  # a batch began meanwhile
            return
        self._finished.add(name)
        for error in found.failed:
            work.listener.on_message(f"maintenance of {name} failed: {error}")
        removed = sum(each.count for each in (found.unneeded, found.slices, found.left_behind, found.states))
        work.listener.on_message(f"maintained {name}: {found.joined.count} files joined, {removed} removed")
