"""Separates late rows from those that belong to a window, and reopens windows for late rows within MAX LATENESS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, ClosedSince
from waterclock.batches.records import Slice
from waterclock.engine.reads.pin import PinnedRead, frame_of
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.graph import late_tables
from waterclock.flow.late_rows import CAME_EARLY, CAME_LATE, NO_TIME, REASON, LateRows
from waterclock.planner.late_rows import (
    find_closed_windows,
    find_remakeable_windows,
    find_reopenable_windows,
    first_window_after,
)
from waterclock.planner.plan import Batch
from waterclock.similar_names import did_you_mean
from waterclock.spark_sql import quote_name
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import frame_of_slices, table_schema
from waterclock.timelabel.label import TIMELABEL, label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_START, _END, _FOUND = "wc_start", "wc_end", "wc_found"


def find_rejected_late_rows(
    work: RunContext, table: Table, late_rows: LateRows, batch: Batch, rows: DataFrame
) -> DataFrame:
    """Return a slice's rows that belong to no window, with the reason. Cost: three ledger queries.

    Raises E717 if the time column is missing or no TIMESTAMP, or the rows have a column with the name of the reason.
    """
    from pyspark.sql import functions as F  # noqa: N812

    of, at = work.flow.tables[late_rows.of], _time_column(table, late_rows, rows)
    since = _read_closed_windows(work, of, [batch.label])
    begins = batch.begins or BEGINNING
    closed = find_closed_windows(of, late_rows, since, batch.label, begins)
    is_late = _any_of(F.lit(False), ((at >= F.lit(low)) & (at < F.lit(high)) for low, high in closed))  # noqa: FBT003
    is_early = at >= F.lit(first_window_after(of, late_rows, batch.label, begins))
    reason = F.when(at.isNull(), NO_TIME).when(is_late, CAME_LATE).when(is_early, CAME_EARLY)
    return rows.withColumn(REASON, reason).where(F.col(REASON).isNotNull())


def reopen_windows(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    batches: Sequence[Batch],
    pins: Mapping[datetime, tuple[PinnedRead, ...]],
) -> None:
    """Reopen the closed windows for which the slices of `batches` have rows within MAX LATENESS.

    This happens before late rows are separated, because rows of a reopened window no longer count as late. Cost: one
    Spark query for each slice that has rows, if any window can be reopened; and some short ledger queries.
    """
    late_rows = table.late_rows
    if late_rows is None or late_rows.within is None:
        return
    of = work.flow.tables[late_rows.of]
    ticks: dict[datetime, datetime] = {}
    since, dropped = _read_closed_windows(work, of, [batch.label for batch in batches]), _find_dropped_spans(work, of)
    for batch in batches:
        if not any(piece.rows for pinned in pins[batch.label] for piece in pinned.slices):
            continue
        reopenable = find_reopenable_windows(of, late_rows, since, batch.label)
        if windows := find_remakeable_windows(of, work.flow, dropped, reopenable):
            rows = frame_of(spark, work.lake, work.flow, pins[batch.label][0])
            for label in _find_windows_with_rows(spark, rows, _time_column(table, late_rows, rows), windows):
                ticks[label] = max(batch.window.end, ticks.get(label, batch.window.end))
    if ticks:
        others = late_tables(work.flow, of.name)
        kept = [batch.label for batch in batches]
        why = f"late rows in {table.name}@{label_of(max(kept))}"
        work.ledger.decisions.reopen(of.name, ticks, late_tables=others, keep=kept, who=work.settings.who, why=why)


def late_rows_warnings(table: Table, manifest: Manifest) -> tuple[str, ...]:
    """Return a warning with the number of rows that belong to no window, if there are any."""
    if table.late_rows is None or not manifest.rows:
        return ()
    read = table.reads[0].table
    rows = "1 row" if manifest.rows == 1 else f"{manifest.rows} rows"
    return (f"{rows} of {read} arrived too late for {table.late_rows.of}, or too early",)


def find_newest_late_slices(
    work: RunContext, spark: SparkSession, table: Table, labels: Iterable[datetime]
) -> dict[datetime, datetime]:
    """Map the label of each window with late rows to the end of the newest slice that contains some of them.

    Windows that cannot be made again are left out. Cost: one Spark query for each table of late rows that has any.
    """
    from pyspark.sql import functions as F  # noqa: N812

    found: dict[datetime, datetime] = {}
    asked = [table.cadence.window_of(label) for label in sorted(labels)]
    windows = find_remakeable_windows(table, work.flow, _find_dropped_spans(work, table), asked)
    for name in late_tables(work.flow, table.name) if windows else ():
        kept, late_rows = work.flow.tables[name], work.flow.tables[name].late_rows
        slices = [piece for piece in work.ledger.reads.slices(name, windows[0].start, FOREVER) if piece.rows]
        if late_rows is None or not slices:
            continue
        rows = _rows_of_slices(work, spark, kept, slices).where(F.col(REASON) == CAME_LATE).drop(REASON)
        of_windows = _join_windows(spark, rows, _time_column(kept, late_rows, rows), windows)
        for number, label in of_windows.groupBy(_FOUND).agg(F.max(TIMELABEL)).collect():
            tick = kept.cadence.window(label).end
            start = windows[number].start
            found[start] = max(tick, found.get(start, tick))
    return found


def _find_windows_with_rows(
    spark: SparkSession, rows: DataFrame, at: Column, windows: Sequence[Window]
) -> list[datetime]:
    found = _join_windows(spark, rows, at, windows).select(_FOUND).distinct().collect()
    return [windows[row[_FOUND]].start for row in found]


def _join_windows(spark: SparkSession, rows: DataFrame, at: Column, windows: Sequence[Window]) -> DataFrame:
    """Return the rows whose time is in one of the windows, with the window's number."""
    from pyspark.sql import functions as F  # noqa: N812

    times = pa.timestamp("us", "UTC")
    columns = {
        _FOUND: pa.array(range(len(windows)), pa.int32()),
        _START: pa.array([window.start for window in windows], times),
        _END: pa.array([window.end for window in windows], times),
    }
    spans = F.broadcast(spark.createDataFrame(pa.table(columns)))
    inside = (at >= F.col(_START)) & (at < F.col(_END))
    # from the first window to the last: lets Spark skip files outside of all windows
    hull = (at >= F.lit(windows[0].start)) & (at < F.lit(windows[-1].end))
    return rows.where(hull).join(spans, inside)


def _rows_of_slices(work: RunContext, spark: SparkSession, table: Table, slices: Sequence[Slice]) -> DataFrame:
    folder = work.folder(table)
    manifests = [read_manifest(folder, piece.slice_path) for piece in slices]
    return frame_of_slices(spark, folder, manifests, table_schema(folder))


def _read_closed_windows(work: RunContext, of: Table, labels: Sequence[datetime]) -> ClosedSince:
    return work.ledger.reads.read_closed_since(of.name, min(labels), of.cadence.floor(max(labels)))


def _find_dropped_spans(work: RunContext, of: Table) -> dict[str, tuple[datetime, datetime]]:
    """Map a table and each of its inputs to the span that RETAIN has dropped, for `find_remakeable_windows`.

    Cost: one ledger query for each of them, and a second one if something was dropped.
    """
    dropped: dict[str, tuple[datetime, datetime]] = {}
    for name in dict.fromkeys([of.name, *(read.table for read in of.reads)]):
        before = work.ledger.maintenance.drop_boundary(name, by=FOREVER)
        first = next(iter(work.ledger.reads.covered_windows(name)), None) if before is not None else None
        if before is not None and first is not None:
            dropped[name] = (first[0], before)
    return dropped


def _time_column(table: Table, late_rows: LateRows, rows: DataFrame) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    types = {field.name.lower(): field.dataType.simpleString() for field in rows.schema.fields}
    found = types.get(late_rows.column.lower())
    read = table.reads[0].table
    if REASON in types:
        raise WaterclockError(
            "E717",
            f"{read} has a column {REASON}",
            where=str(table.place),
            why=f"{table.name} adds a column of this name, the reason why no window of {late_rows.of} takes the row",
            fix=f"rename the column of {read}",
        )
    if found == "timestamp":
        return F.col(quote_name(late_rows.column))
    what = (
        f"{late_rows.column} of {read} is {found}, not TIMESTAMP"
        if found
        else f"{read} has no column {late_rows.column}"
    )
    raise WaterclockError(
        "E717",
        what,
        where=str(table.place),
        why=f"late rows of {late_rows.of} are detected by {late_rows.column}",
        fix=did_you_mean(late_rows.column, rows.columns)
        or f"declare {late_rows.column} TIMESTAMP in the columns of {read}",
    )


def _any_of(found: Column, others: Iterable[Column]) -> Column:
    for other in others:
        found = found | other
    return found
