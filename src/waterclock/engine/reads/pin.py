"""Pins the inputs of a batch, and returns the pinned rows as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.batches.records import Input, Pin, Slice
from waterclock.engine.reads.as_of import list_state_steps
from waterclock.engine.reads.bucketed_inputs import bucketed_frame
from waterclock.engine.reads.hidden import add_hidden_columns
from waterclock.flow.declarations import Flow, Read, Table
from waterclock.flow.enums import Mode
from waterclock.ledger.ledger import Ledger
from waterclock.planner.plan import Batch, BoundRead
from waterclock.storage.folds.fold import fill_columns
from waterclock.storage.folds.older_states import state_of
from waterclock.storage.folds.table_columns import empty_schema
from waterclock.storage.lake import Lake
from waterclock.storage.log.content_as_of import LogStep
from waterclock.storage.log.open_tables import is_readable
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import (
    FILES_READ_DIRECTLY,
    frame_at,
    frame_of_slices,
    frame_of_version,
    no_rows,
    table_schema,
)
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class OpenSlices:
    """The rows of a table's open labels: the slices in the folder of its `spd_` table, oldest first."""

    folder: str
    manifests: tuple[Manifest, ...]


@dataclass(frozen=True, slots=True)
class PinnedRead:
    """A table that a batch reads, fixed to a state: its input for the audit trail, and the slices of that state.

    `steps` are set if a MERGE or TEMPORAL state is in no readable version: it is rebuilt from these slices. `opened`
    has the rows of labels that are not done, for the windows that a tick computes (CONTINUOUS).
    """

    bound: BoundRead
    input: Input
    slices: tuple[Slice, ...]
    steps: tuple[LogStep, ...] = ()
    opened: OpenSlices | None = None

    @property
    def read(self) -> Read:
        """The reference as it is declared."""
        return self.bound.read


def pin(ledger: Ledger, lake: Lake, flow: Flow, batches: Sequence[Batch]) -> dict[datetime, tuple[PinnedRead, ...]]:
    """Pin every table that the batches read to slices and a Delta version. Return the pinned reads by label.

    All are resolved at one moment. If an input changes before the claim is taken, the claim is refused (E410), and the
    inputs are pinned again. Cost: one ledger transaction.
    """
    bounds = [bound for batch in batches for bound in batch.reads]
    pins = iter(ledger.reads.pins([(bound.read.table, bound.low, bound.high) for bound in bounds]))
    return {
        batch.label: tuple(_pin_read(ledger, lake, flow, bound, next(pins)) for bound in batch.reads)
        for batch in batches
    }


def _pin_read(ledger: Ledger, lake: Lake, flow: Flow, bound: BoundRead, found: Pin) -> PinnedRead:
    return PinnedRead(
        bound,
        found.input(str(bound.read), bound.scope.value),
        found.slices if bound.low < bound.high else (),  # an empty interval reads nothing
        _rebuild_steps(ledger, lake, flow, bound, found),
    )


def _rebuild_steps(ledger: Ledger, lake: Lake, flow: Flow, bound: BoundRead, found: Pin) -> tuple[LogStep, ...]:
    """Return the slices that a MERGE or TEMPORAL state must be rebuilt from. Empty if a readable version has it."""
    if not flow.tables[found.table].is_fold or not found.slices or bound.low >= bound.high:
        return ()
    if is_readable(lake.folder(found.table), found.slices[0].version):
        return ()
    return list_state_steps(ledger, found.table, found.slices[-1].end)  # a snapshot may cover windows before its own


def frame_of(spark: SparkSession, lake: Lake, flow: Flow, pinned: PinnedRead) -> DataFrame:
    """Return the pinned rows as a DataFrame, including `timelabel`. Without slices, it is empty but has all columns.

    Cost: no job here. Few slices are read from their sealed files, more through the Delta log.
    """
    table = flow.tables[pinned.read.table]
    return add_hidden_columns(_pinned_rows(spark, lake, table, pinned), table)


def has_open_slices(pins: Mapping[datetime, Sequence[PinnedRead]]) -> bool:
    """Return whether rows of labels that are not done are read."""
    return any(pinned.opened is not None for reads in pins.values() for pinned in reads)


def _pinned_rows(spark: SparkSession, lake: Lake, table: Table, pinned: PinnedRead) -> DataFrame:
    if pinned.opened is not None:
        return _with_open_rows(spark, lake, table, pinned, pinned.opened)
    folder = lake.folder(table.name)
    if not pinned.slices:
        return build_empty_frame(spark, lake, table)
    if pinned.steps:
        return state_of(spark, lake, table, pinned.steps)
    if table.is_fold:
        known = table_schema(folder)
        rows = frame_of_version(spark, folder, pinned.slices[0].version)
        # a column that was added later is null in an older version, as it is in an older slice
        return rows if len(rows.columns) == len(known.fields) else fill_columns(rows, known.json())
    if len(pinned.slices) <= FILES_READ_DIRECTLY:
        manifests = [read_manifest(folder, piece.slice_path) for piece in pinned.slices if piece.slice_path]
        is_few = sum(len(manifest.files) for manifest in manifests) <= FILES_READ_DIRECTLY
        # a state of a REPLACE table is its slice: the head may be newer
        if manifests and (is_few or table.mode is Mode.REPLACE):
            return read_slices(spark, table, folder, manifests)
    return frame_at(
        spark,
        folder,
        pinned.input.version,
        low=pinned.bound.low,
        high=pinned.bound.high,
        is_partitioned=table.is_partitioned,
    )


def _with_open_rows(spark: SparkSession, lake: Lake, table: Table, pinned: PinnedRead, opened: OpenSlices) -> DataFrame:
    """Return the pinned rows of done labels, with those of open labels. An open label may be done in the meantime."""
    rows = frame_of_slices(spark, opened.folder, opened.manifests)
    if not pinned.slices:
        return rows
    from pyspark.sql import functions as F  # noqa: N812

    labels = [label_of(manifest.label) for manifest in opened.manifests]
    done = _pinned_rows(spark, lake, table, replace(pinned, opened=None)).where(~F.col(TIMELABEL).isin(labels))
    return done.unionByName(rows, allowMissingColumns=True)


def read_slices(spark: SparkSession, table: Table, folder: str, manifests: Sequence[Manifest]) -> DataFrame:
    """Return the rows of sealed slices in the table's columns; in buckets, if the table has some that Spark can use."""
    schema = table_schema(folder)
    rows = bucketed_frame(spark, folder, manifests, schema) if table.bucket_by is not None else None
    return frame_of_slices(spark, folder, manifests, schema) if rows is None else rows


def build_empty_frame(spark: SparkSession, lake: Lake, table: Table) -> DataFrame:
    """Return an empty DataFrame with a table's stored or else declared columns. Raises E705 if it has neither."""
    return no_rows(spark, empty_schema(lake.folder(table.name), table))


def set_label(frame: DataFrame, label: str) -> DataFrame:
    """Set the column `timelabel` in every row to the batch's label, whatever it contained."""
    from pyspark.sql import functions as F  # noqa: N812

    # a query over two tables has two columns `timelabel`: dropping by name removes both
    return frame.drop(TIMELABEL).withColumn(TIMELABEL, F.lit(label))
