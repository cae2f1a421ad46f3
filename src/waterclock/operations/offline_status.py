"""Reports the status of MEASURE … OFFLINE for tables: the newest attempt, its result, and labels not measured yet."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.batches.offline import NEVER, OfflineRun, SpanMeasures, is_due, next_measurement_time, to_measure
from waterclock.flow.declarations import Table
from waterclock.flow.measures import OFFLINE
from waterclock.operations.formatting import count_words, instant_words, local_range
from waterclock.operations.measure_formatting import measured_lines

if TYPE_CHECKING:
    from waterclock.json_models.timeliness import OfflineStatus
    from waterclock.operations.project_opening import OpenedProject

_MOST_WAITING = 100_000
_NEWEST_SPANS = 1


@dataclass(frozen=True, slots=True)
class OfflineTableStatus:
    """The offline status of a table: its newest attempt, when the next is due, and how many labels wait for it.

    `last_run` is the newest attempt. `next_at` is None if the next one may start at once. `is_due` is false for a table
    without visible labels.
    """

    table: Table
    last_run: OfflineRun | None
    next_at: datetime | None
    is_due: bool
    waiting: int
    spans: tuple[SpanMeasures, ...] = ()

    @property
    def error(self) -> str | None:
        """The error of the newest attempt, or None if it succeeded or there is none."""
        return None if self.last_run is None else self.last_run.error

    def to_answer(self) -> OfflineStatus:
        """Build the JSON response with this status."""
        from waterclock.json_models.timeliness import OfflineStatus

        newest = None if self.last_run is None or self.last_run.looked_at == NEVER else self.last_run
        return OfflineStatus.build(
            self,
            table=self.table.name,
            every=None if self.table.offline is None else str(self.table.offline.period),
            looked_at=newest.looked_at if newest else None,
            labels=newest.labels if newest else 0,
            seconds=newest.seconds if newest else None,
            next=self.next_at,
        )

    def due_words(self) -> str:
        """Describe the offline measurement that the next run makes; empty if none is due."""
        if not self.is_due:
            return ""
        waiting = f": {count_words(self.waiting, 'label')} wait" if self.waiting > 1 else ""
        return f"{self.table.name} is measured offline by the next run{waiting}"

    def trouble_words(self) -> str:
        """Describe why the newest attempt failed. Empty if it succeeded."""
        if not self.error:
            return ""
        again = "by the next run" if self.next_at is None else f"from {self._format_instant(self.next_at)} on"
        return f"measuring offline failed: {self.error}; tried again {again}"

    def words(self) -> str:
        """Describe the newest attempt and when the next will be."""
        every = "" if self.table.offline is None else f"each {str(self.table.offline.period).lower()}"
        if self.last_run is None or self.last_run.looked_at == NEVER:
            return f"{every}, not measured yet"
        result = (
            "failed" if self.error else f"{count_words(self.last_run.labels, 'label')} in {self.last_run.seconds:.1f} s"
        )
        again = (
            "again by the next run" if self.next_at is None else f"again from {self._format_instant(self.next_at)} on"
        )
        return f"{every}; checked {self._format_instant(self.last_run.looked_at)}: {result}; {again}"

    def span_lines(self) -> list[str]:
        """Format the measures of the newest span, a line for each."""
        found = []
        for span in self.spans:
            last = self.table.cadence.floor(span.high - timedelta(microseconds=1))
            words = local_range(span.low, last, self.table.cadence)
            measured = {OFFLINE: {name: value.as_json() for name, value in span.found.items()}}
            found.append(f"{words} together, of {count_words(span.labels, 'label')}")
            found += [f"  {line}" for line in measured_lines(measured)]
        return found

    def _format_instant(self, instant: datetime) -> str:
        return instant_words(instant, self.table.cadence.zone)


def list_offline_states(at: OpenedProject, names: Collection[str]) -> tuple[OfflineTableStatus, ...]:
    """Return the status of the tables with offline measures. Cost: a ledger query, and three more for each of them."""
    tables = [at.flow.tables[name] for name in names if at.flow.tables[name].offline is not None]
    ledger = at.ledger
    if not tables or ledger is None:
        return ()
    newest_runs, found = ledger.offline.newest_runs(), []
    for table in tables:
        newest = newest_runs.get(table.name)
        slices = ledger.reads.slices(table.name, BEGINNING, FOREVER)
        current = {it.label: it.claim for it in slices if it.slice_path}
        waiting = to_measure(table, current, ledger.offline.list_measured_labels(table.name), _MOST_WAITING)
        after = next_measurement_time(table, newest)
        spans = ledger.offline.newest_spans(table.name, _NEWEST_SPANS)
        may_start = is_due(table, newest, at.now)
        is_at_once = after == NEVER or (may_start and after > at.now)  # the clock was set back
        due = bool(current) and may_start
        found.append(OfflineTableStatus(table, newest, None if is_at_once else after, due, len(waiting), spans))
    return tuple(found)
