"""Makes the rows of open windows, with the table's own query over the slices that exist so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from waterclock.engine.batch.multi_window_query import Pins
from waterclock.engine.reads.pin import PinnedRead, set_label
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import ReadKind
from waterclock.flow.open_windows import IS_CLOSED, WINDOW_LABEL
from waterclock.planner.plan import Batch, BoundRead
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
