"""Builds the DataFrame of one table for a query: a table of the lake, its view, or a status table of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.dpl.query.pushdown import Pushdown
from waterclock.engine.branching.base_checks import find_borrowed_version
from waterclock.engine.damage import require_log
from waterclock.engine.query.speed_windows import SpeedWindows, find_speed_windows, frame_of_speed_view
from waterclock.engine.query.ticks import ResolvedTick
from waterclock.engine.query.view_rows import find_shown_windows, frame_at_moment, frame_of_view
from waterclock.engine.query.views import find_viewed_table
from waterclock.engine.reads.as_of import frame_as_of
from waterclock.engine.reads.hidden import add_hidden_columns
from waterclock.engine.reads.pin import build_empty_frame
from waterclock.engine.run_context import RunContext
from waterclock.flow.apart import apart_of
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.ledger.read.status import STATUS_TABLES as STATUS_COLUMNS
from waterclock.spark_sql import sql_text
from waterclock.storage.log.content_as_of import find_retained_start
from waterclock.storage.log.delta_log import head
from waterclock.storage.log.open_tables import has_columns
from waterclock.storage.slices.read import frame_at
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


STATUS_TABLES = {f"waterclock.{name}": types for name, types in STATUS_COLUMNS.items()}


def frames_by_name(
    work: RunContext,
    spark: SparkSession,
    names: Iterable[str],
    moment: ResolvedTick | None,
    heads: Mapping[str, int],
    unpaired: Mapping[str, Collection[datetime]] | None = None,
) -> Callable[[str], DataFrame]:
    """Return a function that returns the rows of a table, or of a `<table>_view` with open windows, as of `moment`.

    Open windows of tables with CONTINUOUS are found here, for all `names`, before any table is read: as of one tick.
    `heads` maps tables to the versions to read; other tables are read at their newest version. `unpaired` are labels of
    tables to leave out, see `find_unpaired_labels`.
    """
    speed_windows = find_speed_windows(work, names) if moment is None else {}

    def frame_of(name: str) -> DataFrame:
        if find_viewed_table(work.flow, name) is not None:
            return _frame_of_view(work, spark, name, moment, heads, speed_windows)
        rows = frame_of_table(work, spark, name, moment, heads.get(name))
        left_out = ", ".join(sql_text(label_of(label)) for label in (unpaired or {}).get(name, ()))
        return rows.where(f"{TIMELABEL} NOT IN ({left_out})") if left_out else rows

    return frame_of


def find_unpaired_labels(
    work: RunContext, names: Collection[str]
) -> tuple[dict[str, tuple[datetime, ...]], dict[str, int]]:
    """Map tables with APART to their labels of which the table of the persons does not have the same rows yet.

    Of a query that reads both tables, as their joining view does, these labels are left out: the persons' columns would
    be NULL there. The other batch is not made, failed or held, or not made again of the same inputs and by the same
    query. A label that was skipped, or dropped by its own retention, is not left out. The second result maps the tables
    to the versions to read: those of before, as the persons are read at their newest one. Cost: nothing without such
    tables; else the inputs of all batches of both tables, and their codes if there are several.
    """
    events = [name for name in names if _has_persons_among(work.flow.tables.get(name), names)]
    versions = {name: head(folder) for name in events if has_columns(folder := work.lake.folder(name))}
    return {name: labels for name in events if (labels := _find_unpaired(work, name))}, versions


def _has_persons_among(table: Table | None, names: Collection[str]) -> bool:
    return table is not None and table.apart is not None and apart_of(table.name) in names


def _find_unpaired(work: RunContext, name: str) -> tuple[datetime, ...]:
    maintenance, persons = work.ledger.maintenance, apart_of(name)
    # KEY ... PAST and REFERENCES ... ELSE add inputs to the events alone
    shared = {str(read) for read in work.flow.tables[persons].reads}
    events, other = (
        {
            label: [(each.read, each.low, each.high, each.content) for each in read if each.read in shared]
            for label, read in maintenance.inputs_by_label(table).items()
        }
        for table in (name, persons)
    )
    skipped = {low for low, _ in maintenance.skipped_windows(persons)}
    kept = maintenance.drop_boundary(persons, by=FOREVER) or BEGINNING
    of_other_query = frozenset(work.ledger.reads.unpaired_labels(name, persons))
    return tuple(
        sorted(
            label
            for label, read in events.items()
            if label >= kept and label not in skipped and (other.get(label) != read or label in of_other_query)
        )
    )


def _frame_of_view(
    work: RunContext,
    spark: SparkSession,
    name: str,
    moment: ResolvedTick | None,
    heads: Mapping[str, int],
    speed_windows: SpeedWindows,
) -> DataFrame:
    """Return the rows of the view `name`, as of a tick (`moment`) or now.

    `heads` maps tables to the versions to read; other tables are read at their newest version. `speed_windows` are the
    open windows of tables with CONTINUOUS, found before any of these versions.
    """
    table = find_viewed_table(work.flow, name) or name
    require_log(work, table)
    if moment is not None:
        return frame_at_moment(work, spark, name, moment)

    def read_closed() -> DataFrame:
        return frame_of_table(work, spark, table, version=heads.get(table))

    if work.flow.tables[table].continuous is not None:
        return frame_of_speed_view(work, spark, table, speed_windows[table], read_closed)
    shown = find_shown_windows(work.flow, work.ledger, work.real_now(), table)
    return frame_of_view(work, spark, table, read_closed, shown=shown)


def frame_of_table(
    work: RunContext, spark: SparkSession, name: str, moment: ResolvedTick | None = None, version: int | None = None
) -> DataFrame:
    """Return the rows of a table of the lake: as of a tick (`moment`), at a Delta version, or at its newest one.

    Of a table that a branch borrows, the newest version is the borrowed one: its environment goes on making others. A
    table that was not made when the branch was created has no rows.
    """
    require_log(work, name)
    if moment is not None:
        return frame_as_of(work, spark, work.flow.tables[name], moment.tick, known_at=moment.known_at)
    folder = work.lake.folder(name)
    table = work.flow.tables[name]
    borrowed = find_borrowed_version(work.ledger, work.lake, name)
    if not has_columns(folder) or (borrowed is not None and borrowed < 0):
        return add_hidden_columns(build_empty_frame(spark, work.lake, table), table)
    version = version if borrowed is None else borrowed
    at = head(folder) if version is None or version < 0 else version
    rows = frame_at(spark, folder, at, low=_find_retained_start(work, table), is_partitioned=table.is_partitioned)
    return add_hidden_columns(rows, table)


def _find_retained_start(work: RunContext, table: Table) -> datetime | None:
    """Return the first window that RETAIN keeps, even if older ones are still on disk. None without RETAIN."""
    newest = work.ledger.reads.newest(table.name) if table.retain is not None and table.mode is Mode.APPEND else None
    return None if newest is None else find_retained_start(table, newest.end)


def status_frame(work: RunContext, spark: SparkSession, name: str, pushdown: Pushdown) -> DataFrame:
    """Return the rows of a status table that match a query's conditions, with NULL in columns that it does not use."""
    import pyarrow as pa

    types = STATUS_TABLES[name]
    conditions = [(each.column, each.operator, each.values) for each in pushdown.conditions]
    wanted = [column for column in types if column in pushdown.columns]
    found = work.ledger.past.columns(name.partition(".")[2], wanted, conditions)
    rows = len(next(iter(found.values())))
    arrow = {
        "STRING": pa.string(),
        "BIGINT": pa.int64(),
        "BOOLEAN": pa.bool_(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    }
    columns = {
        column: pa.array(found.pop(column), arrow[kind]) if column in found else pa.nulls(rows, arrow[kind])
        for column, kind in types.items()
    }
    return spark.createDataFrame(pa.table(columns))
