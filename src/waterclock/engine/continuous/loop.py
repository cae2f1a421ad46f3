"""Runs ticks next to a watching run, from a thread of its own, until the run is stopped."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING

from waterclock.engine.background_thread import BackgroundThread
from waterclock.engine.newer_flow import has_newer_flow
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.flow.open_windows import continuous_tables, open_table_of

if TYPE_CHECKING:
    from waterclock.engine.continuous.destinations import OpenWindowDeliveries
    from waterclock.engine.continuous.table_reads import TableReads
    from waterclock.engine.continuous.tick import TickRows

_IDLE_SECONDS = 1.0  # between two checks whether a changed flow has tables with CONTINUOUS
_JOIN_SECONDS = 60.0
_TURN = 0.5  # of the time between two ticks: if another runner committed one more recently, this runner waits


class OpenWindowTicks(BackgroundThread):
    """Computes the open windows of a flow while the block runs, as a context manager.

    `only`: the tables of the run, None for all. A run without some of the tables with CONTINUOUS makes no ticks, since
    one tick is of all of them. A source that cannot be read, or a query that fails, leaves its table as it is, and the
    ticks of the others go on. After any other error, the rows of the tick before stay, and the next tick tries again.
    Both are reported once, and so is their end.
    """

    def __init__(self, work: RunContext, only: Collection[str] | None = None) -> None:
        super().__init__("open windows", most_seconds=_JOIN_SECONDS)
        self._work = work
        self._only = None if only is None else frozenset(only)
        self._read_at: dict[str, float] = {}
        self._last_tick = 0
        self._reads: TableReads[TickRows] | None = None
        self._deliveries: OpenWindowDeliveries | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._reads is not None:
            self._reads.close()
        if self._deliveries is not None:
            self._deliveries.close()

    def _run(self) -> None:
        wait = 0.0
        while not self._done.wait(wait):
            began = time.monotonic()
            tables = self._tables()
            if tables:
                self._try_tick(tables)
                self._deliver()
            seconds = _least_seconds(tables) if tables else _IDLE_SECONDS
            wait = max(0.0, seconds - (time.monotonic() - began))

    def _deliver(self) -> None:
        if self._deliveries is None:
            from waterclock.engine.continuous.destinations import OpenWindowDeliveries  # imports Spark

            self._deliveries = OpenWindowDeliveries(self._work, self._only)
        self._deliveries.start()

    def _tables(self) -> list[Table]:
        tables = continuous_tables(self._work.flow)
        return tables if self._only is None or all(table.name in self._only for table in tables) else []

    def _try_tick(self, tables: Collection[Table]) -> None:
        # these import what runs without ticks do not need
        from waterclock.engine.continuous.table_reads import TableReads
        from waterclock.engine.continuous.tick import run_tick

        work = self._work
        if self._reads is None:
            self._reads = TableReads(work.listener.on_message)
        outages = self._reads.outages
        try:
            if has_newer_flow(work, is_reported=False) or self._is_blocked() or self._is_turn_of_another(tables):
                return
            now = time.monotonic()
            due = [table for table in tables if table.kind is Kind.COLLECT and self._is_due(table, now)]
            tick = run_tick(work, {table.name for table in due}, self._reads)
            self._last_tick = self._last_tick if tick is None else tick
            self._read_at |= {table.name: now for table in due}
            outages.end("")
        except Exception as raised:  # noqa: BLE001 - the batches of the run do not depend on a tick
            outages.begin("", to_error(raised, where="open windows").what, work.real_now())

    def _is_blocked(self) -> bool:
        rebuilding = self._work.ledger.maintenance.current_rebuilding()
        return rebuilding is not None and rebuilding.is_blocking(self._work.real_now())

    def _is_turn_of_another(self, tables: Collection[Table]) -> bool:
        """Return whether another runner committed a tick within the last half of the time between two ticks."""
        from waterclock.storage.commit.speed_tables import read_state

        newest = read_state(self._work.lake.folder(open_table_of(next(iter(tables)).name)))
        if newest.at is None or newest.tick == self._last_tick:
            return False
        return 0 <= (datetime.now(UTC) - newest.at).total_seconds() < _TURN * _least_seconds(tables)

    def _is_due(self, table: Table, now: float) -> bool:
        last, every = self._read_at.get(table.name), table.continuous
        return last is None or every is None or now - last >= every.to_timedelta().total_seconds() * (1 - _TURN / 2)


def _least_seconds(tables: Collection[Table]) -> float:
    return min(table.continuous.to_timedelta().total_seconds() for table in tables if table.continuous is not None)
