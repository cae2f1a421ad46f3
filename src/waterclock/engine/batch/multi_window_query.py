"""Makes the rows of many windows by one Spark query.

The user's query is unchanged, except that it follows a LATERAL and reads the rows of one window. Spark converts it
into one query over the rows of all windows, which groups, ranks, joins and deduplicates within each window. Spark
rejects queries that it cannot convert, before any job: a window's rows on the left of an outer join, queries within
expressions, or a window's own time inside an aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

from waterclock.batches.records import Slice
from waterclock.dpl.query.multi_window_rewrite import MultiWindowRewrite, window_wise
from waterclock.dpl.query.splice import MARKERS, SplicedQuery, list_reads, splice_with
from waterclock.engine.reads.hidden import add_hidden_columns
from waterclock.engine.reads.pin import PinnedRead, build_empty_frame, frame_of, read_slices
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.queries import build_query_frame
from waterclock.engine.spark.user_functions import register_functions
from waterclock.flow.declarations import Flat, Query, Read, Table, TableReference, ValueReference
from waterclock.planner.plan import Batch
from waterclock.spark_sql import quote_name
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import FILES_READ_DIRECTLY
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Pins = Mapping[datetime, tuple[PinnedRead, ...]]

WINDOW = "wc_window"
_TYPES = {"TIMELABEL": "STRING", "IS_PARTIAL": "BOOLEAN"}
_WINDOWS = "wc_windows"
# Rows that several windows read are repeated for each. Beyond this factor, one query for each window costs no more.
_MOST_COPIES = 4


def split_batches(work: RunContext, batches: Sequence[Batch], pins: Pins) -> list[Sequence[Batch]]:
    """Split batches into shares, in order, each for one query (see `split_labels`)."""
    by_label = {batch.label: batch for batch in batches}
    return [[by_label[label] for label in share] for share in split_labels(work, list(by_label), pins)]


def split_labels(
    work: RunContext, labels: Sequence[datetime], pins: Mapping[datetime, Sequence[PinnedRead]]
) -> list[list[datetime]]:
    """Split labels into shares, in order, so that no share reads more files of a table than Spark lists quickly.

    Cost: one read of the manifest of each input slice, however many labels read it.
    """
    shares: list[list[datetime]] = [[]]
    files: dict[tuple[Read, str], int] = {}
    held: dict[Read, dict[str, int]] = {}
    for label in labels:
        own = {pinned.read: _files_by_slice(work, pinned, files) for pinned in pins[label]}
        joined = {read: held.get(read, {}) | counts for read, counts in own.items()}
        is_much = any(
            sum(counts.values()) > FILES_READ_DIRECTLY and len(counts) > len(held.get(read, {}))
            for read, counts in joined.items()
        )
        if shares[-1] and is_much:
            shares.append([])
            joined = own
        shares[-1].append(label)
        held = joined
    return shares


def query_windows(
    work: RunContext,
    spark: SparkSession,
    query: Query,
    batches: Sequence[Batch],
    pins: Pins,
    seen: Callable[[Read, DataFrame], DataFrame],
) -> DataFrame | None:
    """Return the rows of all windows, with their labels in `timelabel`, or None if one query cannot make them.

    `seen` removes the rows of an input that the table's input rules exclude. Cost: no job here. The query has a scan
    for each read, and as many exchanges as the query of one window.
    """
    frames: dict[Read, DataFrame] = {}
    for read in list_reads(query):
        shown = [next(each for each in pins[batch.label] if each.read == read) for batch in batches]
        frame = read_for_all_windows(work, spark, shown)
        if frame is None or WINDOW in map(str.lower, frame.columns[:-1]):
            return None
        frames[read] = seen(read, frame)
    if not frames:
        return None
    ways = _WindowReplacements(
        query, {read: (f"wc_all_{at}", frame.columns) for at, (read, frame) in enumerate(frames.items())}
    )
    for read, frame in frames.items():
        frame.createOrReplaceTempView(ways.reads[read][0])
    _windows_frame(spark, batches).createOrReplaceTempView(_WINDOWS)
    spliced = splice_with(query, ways)
    try:
        return _query_all_windows(work, spark, spliced, ways.columns())
    except PySparkException:
        return None  # a query for each window will report the error in the user's own text


@dataclass(frozen=True, slots=True)
class _WindowReplacements:
    """Writes the replacements in a query of many windows. `reads` maps each read to its view and the view's columns."""

    query: Query
    reads: Mapping[Read, tuple[str, Sequence[str]]]
    found: dict[int, MultiWindowRewrite] = field(default_factory=dict)

    def of_read(self, query: Query, reference: TableReference, read: Read | Flat) -> str:
        if isinstance(read, Flat):
            raise TypeError("a FLAT is made for each window")
        name, columns = self.reads[read]
        if columns[-1] != WINDOW:
            return name
        shown = ", ".join(map(quote_name, columns[:-1]))
        if reference.start in self._analyse_query(query).joined:
            return f"(SELECT {shown}, {WINDOW} AS {_key_of(reference)} FROM {name})"
        return f"(SELECT {shown} FROM {name} WHERE {WINDOW} = {_WINDOWS}.{WINDOW})"

    def of_value(self, query: Query, value: ValueReference) -> str:
        if value.start in self._analyse_query(query).columns:
            return f"CAST(NULL AS {_TYPES.get(value.name, 'TIMESTAMP')})"
        return f"{_WINDOWS}.{MARKERS[value.name]}"

    def between(self, query: Query) -> Mapping[int, str]:
        joined = self._analyse_query(query).joined
        return {
            on: f" {quote_name(name)}.{_key_of(reference)} = {_WINDOWS}.{WINDOW} AND "
            for reference in query.tables
            if reference.read is not None and self.reads[reference.read][1][-1] == WINDOW
            for name, on in [joined.get(reference.start, ("", 0))]
            if on
        }

    def columns(self) -> dict[str, str]:
        """Map each column to add to the query's result to the window value that it contains."""
        names = {value.start: MARKERS[value.name] for value in self.query.values}
        return {name: names[start] for start, name in self._analyse_query(self.query).columns.items()}

    def _analyse_query(self, query: Query) -> MultiWindowRewrite:
        return self.found.setdefault(id(query), window_wise(query, is_whole=query is self.query))


def _key_of(reference: TableReference) -> str:
    return f"{WINDOW}_{reference.start}"


def _query_all_windows(
    work: RunContext, spark: SparkSession, query: SplicedQuery, columns: Mapping[str, str]
) -> DataFrame:
    register_functions(spark, work.root, work.flow, [query.text], work.keys)
    variables = {name: value for name, value in work.project.variables.items() if f":{name}" in query.text}
    of_window = ", ".join(f"{_WINDOWS}.{name}" for name in MARKERS.values())
    text = f"SELECT wc_made.*, {of_window} FROM {_WINDOWS}, LATERAL (\n{query.text}\n) AS wc_made"
    rows = build_query_frame(spark, text, variables)
    rows = rows.withColumns({name: F.col(value) for name, value in columns.items()}) if columns else rows
    label = MARKERS["TIMELABEL"]
    rows = rows.drop(TIMELABEL, *(name for name in MARKERS.values() if name != label))
    rows = rows.withColumnRenamed(label, TIMELABEL)
    rows.schema  # noqa: B018 - over Spark Connect a query is analysed when its schema is read
    return rows


def _windows_frame(spark: SparkSession, batches: Sequence[Batch]) -> DataFrame:
    times = pa.timestamp("us", "UTC")
    columns = {
        WINDOW: pa.array(range(len(batches)), pa.int32()),
        MARKERS["WINDOW_START"]: pa.array([batch.window.start for batch in batches], times),
        MARKERS["WINDOW_END"]: pa.array([batch.window.end for batch in batches], times),
        MARKERS["TIMELABEL"]: pa.array([batch.window.label for batch in batches], pa.string()),
        MARKERS["IS_PARTIAL"]: pa.array([batch.is_partial for batch in batches], pa.bool_()),
    }
    return spark.createDataFrame(pa.table(columns))


def read_for_all_windows(work: RunContext, spark: SparkSession, shown: Sequence[PinnedRead]) -> DataFrame | None:
    """Return the rows of one input for all windows of a group in one DataFrame.

    A column has the window's number, unless all windows read the same rows. None if a window reads anything but sealed
    slices, such as the state of a MERGE table. Cost: no job here, and one scan for any number of windows.
    """
    first, table = shown[0], work.flow.tables[shown[0].read.table]
    if first.opened is None and read_same_rows(shown):
        return frame_of(spark, work.lake, work.flow, first)
    if table.is_fold or any(each.steps or each.opened is not None for each in shown):
        return None
    pieces = {piece.slice_path: piece for each in shown for piece in each.slices}
    copies = sum(piece.rows for each in shown for piece in each.slices)
    if len({piece.label for piece in pieces.values()}) < len(pieces):
        return None  # rows are assigned by the label of their slice
    if "" in pieces or copies > _MOST_COPIES * sum(piece.rows for piece in pieces.values()):
        return None
    folder = work.lake.folder(table.name)
    manifests = [read_manifest(folder, path) for path in pieces]
    return _number_windows(spark, add_hidden_columns(_read_slices(work, spark, table, folder, manifests), table), shown)


def _read_slices(
    work: RunContext, spark: SparkSession, table: Table, folder: str, manifests: Sequence[Manifest]
) -> DataFrame:
    if not manifests:
        return build_empty_frame(spark, work.lake, table)
    return read_slices(spark, table, folder, manifests)


def _number_windows(spark: SparkSession, rows: DataFrame, shown: Sequence[PinnedRead]) -> DataFrame:
    """Add the number of the window that reads a row, matched by label. A row is repeated for each such window."""
    read_by = [(label_of(piece.label), number) for number, each in enumerate(shown) for piece in each.slices]
    numbers = pa.table(
        {
            TIMELABEL: pa.array([label for label, _ in read_by], pa.string()),
            WINDOW: pa.array([number for _, number in read_by], pa.int32()),
        }
    )
    of_label = F.broadcast(spark.createDataFrame(numbers).withColumnRenamed(TIMELABEL, "wc_label"))
    return rows.join(of_label, rows[TIMELABEL] == of_label["wc_label"]).select(*map(quote_name, rows.columns), WINDOW)


def read_same_rows(shown: Sequence[PinnedRead]) -> bool:
    """Return whether several reads of one table return the same rows."""
    return all(_rows_identity(each) == _rows_identity(shown[0]) for each in shown)


def _rows_identity(pinned: PinnedRead) -> tuple[object, ...]:
    return pinned.input.version, pinned.steps, tuple(_slice_identity(piece) for piece in pinned.slices)


def _slice_identity(piece: Slice) -> tuple[object, ...]:
    return piece.label, piece.claim, piece.version


def _files_by_slice(work: RunContext, pinned: PinnedRead, known: dict[tuple[Read, str], int]) -> dict[str, int]:
    """Return the number of files of each slice that a window reads. `known` caches the counts."""
    folder = work.lake.folder(pinned.read.table)
    counts = {}
    for path in (piece.slice_path for piece in pinned.slices if piece.slice_path):
        key = pinned.read, path
        if key not in known:
            known[key] = len(read_manifest(folder, path).files)
        counts[path] = known[key]
    return counts
