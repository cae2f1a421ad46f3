"""Finds the tables whose OFFLINE measurements are due. Spark is imported only if there are any."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from threading import Event

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.batches.offline import is_due
from waterclock.engine.run_context import RunContext


def measure_due(work: RunContext, now: datetime, only: Collection[str] | None, stop: Event) -> None:
    """Run the OFFLINE measurements that are due at `now`, one table after the other. Failures raise nothing.

    Cost: nothing if no table declares OFFLINE. Otherwise one ledger query, plus two for each table that is due.
    """
    tables = [it for it in work.flow.tables.values() if it.offline and (only is None or it.name in only)]
    last_runs = work.ledger.offline.newest_runs() if tables else {}
    for table in tables:
        last_run = last_runs.get(table.name)
        if stop.is_set() or not is_due(table, last_run, now):
            continue
        current = {it.label: it for it in work.ledger.reads.slices(table.name, BEGINNING, FOREVER) if it.slice_path}
        if current:
            from waterclock.engine.batch.measuring_offline import measure_offline

            measure_offline(work, table, last_run, now, current)
