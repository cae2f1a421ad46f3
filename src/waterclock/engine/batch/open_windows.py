"""Makes the rows of open windows, with the table's own query over the slices that exist so far.

Also ends the ticks that compute open windows meanwhile (CONTINUOUS), before a batch becomes visible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError

from waterclock.engine.batch.multi_window_query import Pins
from waterclock.engine.reads.pin import PinnedRead, set_label
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import ReadKind
from waterclock.flow.open_windows import IS_CLOSED, WINDOW_LABEL, continuous_tables, open_table_of
from waterclock.planner.plan import Batch, BoundRead
from waterclock.storage.commit.speed_tables import end_running_ticks
from waterclock.storage.slices.read import find_table_schema
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Parts = list[tuple[Sequence[Batch], DataFrame]]
    # a function that makes the rows of windows, each with its label in `timelabel`
    Making = Callable[[Sequence[Batch], Pins], Parts]


def open_parts(table: Table, batches: Sequence[Batch], pins: Pins, making: Making) -> Parts:
    """Return the rows of each state of open windows, with the label of the row's window in an extra column.

    `making` runs the table's own query, if possible once for all windows.
    """
    return [([batch], _state_rows(table, batch, pins[batch.label], making)) for batch in batches]


def end_ticks(work: RunContext, table: Table, labels: Sequence[datetime]) -> None:
    """Make the commits of running ticks fail, for a table with CONTINUOUS and all tables that read it.

    `labels` are those of a batch that is about to be committed. If all were done before, ticks go on. Otherwise a tick
    that is committed after the batch could show fewer rows of its labels than the batch has. An error is reported, and
    does not fail the batch. Cost: a query of the ledger, and a small file for each of these tables.
    """
    if table.continuous is None:
        return
    done = work.ledger.reads.covered_windows(table.name)
    if all(done.covers_instant(label) for label in labels):
        return
    names = {table.name}
    for other in continuous_tables(work.flow):
        if other.name in names or any(read.table in names for read in other.reads):
            names.add(other.name)
            name = open_table_of(other.name)
            folder = work.lake.folder(name)
            try:
                known = find_table_schema(folder) or find_table_schema(work.lake.folder(other.name))
                if known is None:
                    continue  # it had neither a tick nor a batch yet
                end_running_ticks(folder, known, table=name, project=work.flow.project)
            except (DeltaError, OSError, WaterclockError) as error:
                work.report_once(f"running ticks of {other.name} could not be ended: {error}")


def _state_rows(table: Table, batch: Batch, pinned: Sequence[PinnedRead], making: Making) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    windows = [replace(batch, window=each.window, reads=each.reads, opened=()) for each in batch.opened]
    pins: dict[datetime, tuple[PinnedRead, ...]] = {
        each.window.start: tuple(_window_read(bound, pinned) for bound in each.reads) for each in batch.opened
    }
    frames = [frame for _, frame in making(windows, pins)]
    rows = reduce(lambda left, right: left.unionByName(right), frames)
    ours = next((name for name in rows.columns if name.lower() in {WINDOW_LABEL, IS_CLOSED}), None)
    if ours is not None:
        raise WaterclockError(
            "E268",
            f"the query of {table.open_of} returns a column {ours}",
            where=f"{table.name}@{batch.window.label}",
            why=(
                f"{WINDOW_LABEL} is reserved for the window of a row, and {IS_CLOSED} for whether that window is closed"
            ),
            fix="rename the column, or leave open_windows out",
        )
    return set_label(rows.withColumn(WINDOW_LABEL, F.col(TIMELABEL)), batch.window.label)


def _window_read(bound: BoundRead, pinned: Sequence[PinnedRead]) -> PinnedRead:
    """Return the pinned read of one window: the part of the read that is pinned for all open windows."""
    if bound.read.kind is not ReadKind.UNTIL:
        return next(each for each in pinned if each.bound == bound)
    whole = next(each for each in pinned if each.read == bound.read)
    slices = tuple(piece for piece in whole.slices if bound.low <= piece.label < bound.high)
    return replace(whole, bound=bound, slices=slices)
