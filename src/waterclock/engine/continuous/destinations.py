"""Delivers the open windows of tables with CONTINUOUS to destinations that show them (OPTIONS (speed true)).

Correctness of batches and of ticks never depends on it. The destination calls `_OpenRows.read` while no other runner
delivers the publish. It reads the newest tick first and the ledger second. So a label that a tick no longer has was
closed by a batch, and its rows stay at the destination until the PUBLISH of that label replaces them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.connectors.delivering import Delivery, OpenWindowDestination, OpenWindowRows
from waterclock.connectors.sql.versioned_views import has_union_view
from waterclock.engine.batch.destinations import unit_of
from waterclock.engine.batch.publish import build_delivery
from waterclock.engine.continuous.appends import AFTER
from waterclock.engine.continuous.open_labels import held_labels, reads_held_label
from waterclock.engine.continuous.table_reads import Outages
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error
from waterclock.faults import fault
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.open_windows import open_table_of
from waterclock.planner.planning import Planner
from waterclock.storage.commit.speed_tables import SpeedState, read_slices, read_state
from waterclock.storage.slices.appended import newest_part
from waterclock.storage.slices.manifest import Manifest
from waterclock.timelabel.label import instant_of, label_of

_LONGEST_PAUSE = 60.0
"""Seconds after which a destination is compared again without a new tick: a user may have skipped a label."""
_JOIN_SECONDS = 60.0


def publishes_of_open_windows(flow: Flow) -> list[Table]:
    """Return the publishes whose destinations show open windows."""
    tables = (flow.tables[name] for name in flow.order)
    return [each for each in tables if each.destination is not None and has_union_view(each.destination)]


def deliver_open_windows(work: RunContext, table: Table) -> int:
    """Make the destination of a publish show the newest tick. Return the number of changed labels.

    Cost: one connection, and the rows of labels that changed since the last delivery.
    """
    if not work.project.delivers(table):
        return 0
    unit = unit_of(work, table)
    deliverer = work.connections.deliverer(unit.connection)
    if not isinstance(deliverer, OpenWindowDestination):
        raise TypeError(f"{table.name} cannot show open windows, which check refuses")
    return deliverer.show_open(unit, work.flow.project, table.name, _OpenRows(work, table).read)


@dataclass(frozen=True, slots=True)
class _OpenRows:
    """The open windows of the table of a publish."""

    work: RunContext
    table: Table

    def read(self, there: Collection[str]) -> OpenWindowRows:
        """Return the open windows to show, given the labels that the destination shows."""
        work, source = self.work, self.work.flow.tables[self.table.reads[0].table]
        folder = work.lake.folder(open_table_of(source.name))
        state = read_state(folder)
        fault("open.pinned")
        snapshot = work.ledger.reads.snapshot(work.flow)
        start = Planner(work.flow).starts(snapshot, work.real_now())[self.table.name]
        shown = find_shown_labels(work.flow, source, state, snapshot, start)
        slices = read_slices(folder, state)
        found = [slices[label] for label in shown if label in slices]
        new = [
            replace(self._delivery(folder, newest_part(each)), appended_to=str(each.source[AFTER]))
            for each in found
            if AFTER in each.source
        ]
        # a label whose slice is damaged keeps its rows until the next tick makes it again
        damaged = {label_of(label) for label in shown if label not in slices}
        kept = {label for label in there if self._is_closed(snapshot, instant_of(label), source)}
        return OpenWindowRows(
            shown=tuple(self._delivery(folder, each) for each in found),
            appended={each.label_text: each for each in new},
            kept=frozenset(kept | damaged),
        )

    def _is_closed(self, snapshot: LedgerSnapshot, label: datetime, source: Table) -> bool:
        """Return whether a batch closed a label whose PUBLISH is not done."""
        own, of_source = snapshot.of(self.table.name), snapshot.of(source.name)
        if label in held_labels(own) | held_labels(of_source):
            return False
        return of_source.covered.covers_instant(label) and not own.covered.covers_instant(label)

    def _delivery(self, folder: str, manifest: Manifest) -> Delivery:
        made = build_delivery(self.work, self.table, manifest, folder=folder, claim=0, note=manifest.slice_path)
        columns = self.table.columns
        named = {column.name.lower() for column in columns.named}
        left_out = {name.lower() for name in columns.left_out}
        sent = [each for each in made.columns if each[0].lower() not in left_out]
        return replace(made, columns=tuple(each for each in sent if columns.is_open or each[0].lower() in named))


def find_shown_labels(
    flow: Flow, source: Table, state: SpeedState, snapshot: LedgerSnapshot, start: datetime
) -> list[datetime]:
    """Return the labels of a tick that a destination shows: from the START of its publish on, without held ones.

    A label that is done since is among them, until its PUBLISH replaces it.
    """
    facts = snapshot.of(source.name)
    return [
        label
        for label in state.slices
        if label >= start
        and (
            facts.covered.covers_instant(label)
            or not reads_held_label(flow, snapshot, source.name, label, source.cadence.next(label))
        )
    ]


class OpenWindowDeliveries:
    """Delivers open windows in the background, each publish in a thread of its own.

    While a destination is slow, its ticks are skipped: the next delivery has the newest one. An outage is reported
    once, and so is its end; each call tries again. `only`: the tables of the run, None for all.
    """

    def __init__(self, work: RunContext, only: Collection[str] | None = None) -> None:
        self._work = work
        self._only = only
        self._outages = Outages(work.listener.on_message)
        self._threads: dict[str, threading.Thread] = {}
        self._delivered: dict[str, tuple[int, float]] = {}

    def start(self) -> None:
        """Start a delivery of each publish whose table has a new tick and whose last delivery has ended."""
        for table in publishes_of_open_windows(self._work.flow):
            if self._only is not None and table.name not in self._only:
                continue
            known = self._threads.get(table.name)
            if known is None or not known.is_alive():
                thread = threading.Thread(target=self._try, args=(table,), name=f"open {table.name}", daemon=True)
                self._threads[table.name] = thread
                thread.start()

    def close(self) -> None:
        """Wait until the running deliveries end. A destination that does not answer delays the end for a minute."""
        end = time.monotonic() + _JOIN_SECONDS
        for thread in self._threads.values():
            thread.join(max(0.0, end - time.monotonic()))

    def _try(self, table: Table) -> None:
        work = self._work
        try:
            head = read_state(work.lake.folder(open_table_of(table.reads[0].table))).head
            now = time.monotonic()
            before = self._delivered.get(table.name)
            if head < 0 or (before is not None and before[0] == head and now - before[1] < _LONGEST_PAUSE):
                return
            deliver_open_windows(work, table)
            self._delivered[table.name] = head, now
            self._outages.end(table.name)
        except Exception as raised:  # noqa: BLE001 - neither batches nor ticks depend on a destination
            self._outages.begin(table.name, to_error(raised, where=table.name).what, work.real_now())
