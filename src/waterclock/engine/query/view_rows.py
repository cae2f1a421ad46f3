"""Returns the rows of `<table>_view`.

A window that is done in the table is read from there. Other windows are read from one state of the open windows, before
which all closed windows are done: that of the requested tick, or else the newest such state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from waterclock.engine.query.ticks import ResolvedTick
from waterclock.engine.query.views import closing_ticks_of, find_viewed_table
from waterclock.engine.reads.as_of import commit_records, frame_as_of, resolve_as_of
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.open_windows import IS_CLOSED, WINDOW_LABEL, open_table_of, open_windows_table, view_of
from waterclock.ledger.ledger import Ledger
from waterclock.planner.open_windows import VisibleWindows
from waterclock.planner.planning import Planner
from waterclock.storage.log.content_as_of import resolve
from waterclock.storage.log.open_tables import has_columns
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import local_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def find_shown_windows(flow: Flow, ledger: Ledger, now: datetime, table: str) -> VisibleWindows:
    """Return the open windows that a view shows now, and the state of the open-windows table that has their rows.

    It is the newest state before which all closed windows are done in the table. The ledger is read at one instant.
    Cost: a snapshot, and a row for each window that was closed since the oldest closed one that is not done.
    """
    planner, open_table = Planner(flow), open_windows_table(flow, table)
    if open_table is None:
        return VisibleWindows(None)
    snapshot = ledger.reads.snapshot(flow)
    done, made = snapshot.of(table).covered, list(snapshot.of(open_table.name).covered)
    openings = closing_ticks_of(flow, ledger, planner.starts(snapshot, now), table)
    undone = (tick for label, tick in openings.closed.items() if not done.covers_instant(label))
    limit, records = min(undone, default=None), commit_records(ledger, open_table.name)
    for boundary in _iterate_boundaries_newest_first(open_table, made, limit):
        if resolve(open_table, boundary, records).steps:  # a skipped state has no steps
            return openings.find_visible_windows(boundary, done, as_they_were=False)
    return VisibleWindows(None)


def frame_of_view(
    work: RunContext,
    spark: SparkSession,
    table: str,
    closed: Callable[[], DataFrame],
    *,
    shown: VisibleWindows,
    known_at: datetime | None = None,
) -> DataFrame:
    """Return a view's rows: those of open windows, and those that `closed` reads from the table. Raises E268, E522."""
    from pyspark.sql import functions as F  # noqa: N812

    labels = [window.label for window in shown.windows]
    open_table, opened = open_windows_table(work.flow, table), None
    if labels and open_table is not None and shown.boundary is not None:
        if not resolve_as_of(work, open_table, shown.boundary, known_at=known_at).steps:
            raise _missing_boundary_error(open_table, shown.boundary)
        rows = frame_as_of(work, spark, open_table, shown.boundary, known_at=known_at)
        is_ended = F.col(TIMELABEL).isin([window.label for window in shown.windows if window.start in shown.ended])
        rows = rows.where(F.col(WINDOW_LABEL).isin(labels)).drop(TIMELABEL)
        opened = rows.withColumnRenamed(WINDOW_LABEL, TIMELABEL).withColumn(IS_CLOSED, is_ended)
    return union_with_closed(work, table, opened, labels, closed)


def union_with_closed(
    work: RunContext, table: str, opened: DataFrame | None, labels: Sequence[str], closed: Callable[[], DataFrame]
) -> DataFrame:
    """Return the rows of a view: those of open windows (`opened`, with `labels`), and all other rows of `closed`."""
    from pyspark.sql import functions as F  # noqa: N812

    frames = [] if opened is None else [opened]
    if not frames or has_columns(work.lake.folder(table)):
        rows = closed()
        if any(name.lower() == IS_CLOSED for name in rows.columns):
            raise _reserved_column_error(table)
        frames.append(rows.where(~F.col(TIMELABEL).isin(labels)).withColumn(IS_CLOSED, F.expr("TRUE")))
    return reduce(lambda left, right: right.unionByName(left, allowMissingColumns=True), frames)


def frame_at_moment(work: RunContext, spark: SparkSession, name: str, moment: ResolvedTick) -> DataFrame:
    """Return the rows of a table, or of a view, as of a resolved tick."""
    table = find_viewed_table(work.flow, name)
    own = work.flow.tables[table or name]

    def read_closed() -> DataFrame:
        return frame_as_of(work, spark, own, moment.tick, known_at=moment.known_at)

    if table is None:
        return read_closed()
    return frame_of_view(
        work,
        spark,
        table,
        read_closed,
        shown=moment.shown_open.get(table, VisibleWindows(None)),
        known_at=moment.known_at,
    )


def _iterate_boundaries_newest_first(
    open_table: Table, made: Sequence[tuple[datetime, datetime]], limit: datetime | None
) -> Iterator[datetime]:
    for low, high in reversed(made):
        boundary = open_table.cadence.floor(high if limit is None else min(high, limit))
        while boundary > low:
            yield boundary
            boundary = open_table.cadence.previous(boundary)


def _missing_boundary_error(open_table: Table, boundary: datetime) -> WaterclockError:
    window, as_of = (
        Window(open_table.cadence.previous(boundary), boundary),
        local_text(boundary, open_table.cadence.zone),
    )
    where = f"{open_table.name}@{window.label}"
    return WaterclockError(
        "E522",
        f"{view_of(open_table.open_of or '')} has no open windows as of {as_of}",
        where=where,
        why="that state was skipped",
        fix=f"`waterclock retry {where}`, then `waterclock backfill {open_table.name} {window.label}` makes it; or "
        "query as of another tick",
    )


def _reserved_column_error(table: str) -> WaterclockError:
    return WaterclockError(
        "E268",
        f"{view_of(table)} would have two columns {IS_CLOSED}",
        where=table,
        why="the view adds a column of this name, whether the window is closed",
        fix=f"query {table} and {open_table_of(table)} directly, or rename the column",
    )
