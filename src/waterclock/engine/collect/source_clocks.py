"""Queries the clocks of sources: the instant up to which each source is complete."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.connectors.interface import ArrivalCollector, Collector, Listing, SealingCollector
from waterclock.engine.collect.arrivals import complete_until
from waterclock.engine.collect.await_signals import has_sign, is_wait_over
from waterclock.flow.awaits import Awaits
from waterclock.flow.declarations import Table, Unit
from waterclock.flow.enums import Batching, WindowSignal
from waterclock.planner.plan import Batch, Group
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from waterclock.engine.run_context import RunContext


@dataclass(frozen=True, slots=True)
class UnfinishedSource:
    """The oldest due window of a table that its source's clock has not passed, or whose sign (AWAIT) is missing.

    `of_items`: the clock is computed from the newest stamp of arrived items. `awaits`: the missing sign; the clock is
    then None.
    """

    table: str
    window: Window
    clock: datetime | None
    of_items: bool = False
    awaits: Awaits | None = None


class SourceClocks:
    """The clock of each source, up to which it is complete, at one `now`. It is queried once per run, before any claim.

    A window is read only once its source's clock has passed its end (docs/decisions/source-clocks.md).
    """

    def __init__(self, work: RunContext, now: datetime) -> None:
        self._work = work
        self._now = now
        self._clocks: dict[str, datetime | None] = {}
        self._held: dict[str, UnfinishedSource] = {}
        self._stopped: set[str] = set()  # ordered tables with a window whose sign is missing

    @property
    def waiting_windows(self) -> tuple[UnfinishedSource, ...]:
        """The oldest window of each table that waits for its source."""
        return tuple(self._held.values())

    def complete(self, group: Group) -> Group:
        """Return a group without the labels whose window the source's clock has not passed, or whose sign is missing.

        If no label has its sign (AWAIT), labels whose maximum wait is over are included, so that they fail.
        """
        table = self._work.flow.tables[group.table]
        awaits = None if group.is_made_of_kept or table.source is None else table.source.awaits
        if awaits is None or awaits.sign is WindowSignal.NEXT:
            group = self._keep_passed(table, group)
        return group if awaits is None or not group.batches else self._keep_signed(table, awaits, group)

    def _keep_signed(self, table: Table, awaits: Awaits, group: Group) -> Group:
        is_arrival = table.source is not None and table.source.batching is Batching.ARRIVAL_TIME
        is_ordered = table.is_in_label_order or is_arrival
        if is_ordered and table.name in self._stopped:
            return dataclasses.replace(group, batches=())
        signed: list[Batch] = []
        missing: list[Batch] = []
        for batch in group.batches:
            if is_ordered and missing:
                break
            (signed if has_sign(self._work, table, batch.window) else missing).append(batch)
        if is_ordered and missing:
            self._stopped.add(table.name)
        given_up = [batch for batch in missing if is_wait_over(table, batch.window, self._now)]
        waiting = next((batch for batch in missing if batch not in given_up), None)
        if waiting is not None:
            self._keep_oldest(UnfinishedSource(table.name, waiting.window, None, awaits=awaits))
        return dataclasses.replace(group, batches=tuple(signed or given_up))

    def _keep_passed(self, table: Table, group: Group) -> Group:
        clock = None if group.is_made_of_kept else self.clock_of(table)
        if table.source is None or clock is None:
            return group
        passed = tuple(batch for batch in group.batches if batch.window.end <= clock)
        ahead = next((batch.window for batch in group.batches if batch.window.end > clock), None)
        if ahead is not None:
            collector = self._work.connections.collector(table.source.unit.connection)
            of_items = isinstance(collector, ArrivalCollector) and not isinstance(collector, SealingCollector)
            self._keep_oldest(UnfinishedSource(table.name, ahead, clock, of_items))
        return dataclasses.replace(group, batches=passed)

    def _keep_oldest(self, found: UnfinishedSource) -> None:
        """Remember the oldest waiting window of a table, since several groups may have labels of one table."""
        known = self._held.get(found.table)
        if known is None or found.window.start < known.window.start:
            self._held[found.table] = found

    def clock_of(self, table: Table) -> datetime | None:
        """Return the clock of a table's source. None if it has none, or if each read returns the source's current rows.

        Snapshots return current rows, and so do collects FOR EACH row of a table.
        """
        is_as_of_now = table.is_snapshot or table.each is not None
        return None if table.source is None or is_as_of_now else self._clock(table.source.unit)

    def _clock(self, declared: Unit) -> datetime | None:
        key = str(declared)
        if key not in self._clocks:
            unit = self._work.connections.resolve_unit(declared)
            collector = self._work.connections.collector(unit.connection)
            self._clocks[key] = self._read_clock(collector, unit)
        return self._clocks[key]

    def _read_clock(self, collector: Collector, unit: Unit) -> datetime | None:
        if isinstance(collector, SealingCollector):
            # no later than the real clock: a sealed source accepts no more events, and `--now` may be far ahead
            return collector.seal(unit, min(self._now, self._work.real_now()))
        clock = collector.clock(unit)
        if clock is not None and clock > self._now and isinstance(collector, ArrivalCollector):
            return _clock_at(self._now, collector.arrivals(unit))
        return clock


def _clock_at(now: datetime, listing: Listing) -> datetime:
    """Return the clock that a source of stamped items had at `now`, in a replay of the past."""
    stamps = [item.stamp for item in filter_arrived(listing, now).items]
    return complete_until(max(stamps)) if stamps else BEGINNING


def filter_arrived(listing: Listing, now: datetime) -> Listing:
    """Return a listing without items stamped at or after `now`: a replay of the past must not read later items."""
    return dataclasses.replace(listing, items=tuple(item for item in listing.items if item.stamp < now))
