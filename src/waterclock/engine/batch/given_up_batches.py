"""Makes substitute rows for batches that a user gives up, because their slices are damaged and cannot be made again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.batches.records import Slice
from waterclock.engine.batch.results import Notes
from waterclock.engine.collect.reread import source_notes_of
from waterclock.engine.damage import current_slice
from waterclock.engine.reads.pin import set_label
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.planner.plan import GIVE_UP, Group
from waterclock.storage.folds.table_columns import written_schema
from waterclock.storage.slices.damage import damage_of
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def build_stand_in_rows(
    work: RunContext, spark: SparkSession, table: Table, group: Group, known: StructType | None
) -> tuple[DataFrame, Notes]:
    """Return substitute rows for the group's labels, and notes on how many rows were lost.

    Most tables get no substitute rows. Snapshots and states of REPLACE tables do, since an empty one would mean that
    every row was deleted. They get the rows of the next undamaged slice, or of the previous one if none is later.
    """
    frames: list[DataFrame] = []
    notes: dict[datetime, dict[str, Any]] = {}
    for batch in group.batches:
        piece = current_slice(work, table.name, batch.label)
        stand_in = _find_stand_in(work, table, batch.label) if table.is_snapshot or table.mode is Mode.REPLACE else None
        frames.append(set_label(_substitute_rows(work, spark, table, known, stand_in), batch.window.label))
        lost = {} if piece is None else {"rows": piece.rows, "slice": piece.slice_path}
        stand_in_note = {} if stand_in is None else {"stood_for_by": label_of(stand_in.label)}
        notes[batch.label] = _items_of(work, table, piece) | {"given_up": lost | stand_in_note}
    return reduce(lambda left, right: left.unionByName(right), frames), Notes(notes)


def _items_of(work: RunContext, table: Table, piece: Slice | None) -> dict[str, Any]:
    """Return the notes about the files that a slice was made from.

    `recompute` reads the files that arrived in the slice's window from the archive. `recollect` reads the files that
    contained its rows, even if they arrived later than DELAY and LOOKBACK allow.
    """
    if piece is None or table.source is None or table.is_snapshot:
        return {}
    source = source_notes_of(work, table, piece)
    return {name: source[name] for name in ("items", "read") if name in source}


def damaged_labels(work: RunContext, table: Table, labels: Sequence[datetime]) -> dict[datetime, Slice]:
    """Map the done labels among `labels` to their damaged slices. Cost: a scan of their rows.

    Raises E413 if the slice of a done label is not damaged.
    """
    found = {}
    for label in labels:
        piece = current_slice(work, table.name, label)
        if piece is None:
            continue
        if damage_of(work.folder(table), piece.slice_path, is_deep=True) is None:
            raise WaterclockError(
                "E413",
                f"{table.name}@{label_of(label)} cannot be skipped",
                where=f"{table.name}@{label_of(label)}",
                why="it is done, and other tables may have read its rows",
                fix=f"`waterclock recompute {table.name}@{label_of(label)}` makes it again",
            )
        found[label] = piece
    return found


def give_up(work: RunContext, table: Table, labels: Sequence[datetime], *, why: str) -> None:
    """Request that the next run gives up damaged labels, so that they no longer block readers.

    Raises E413 if a label is not done.
    """
    who = work.settings.who
    work.ledger.decisions.retry(table.name, labels, who=who)
    work.ledger.decisions.request_restate(table.name, labels, GIVE_UP, who=who)
    for label in labels:
        work.ledger.past.add_event("given up", who=who, table=table.name, label=label, data={"why": why})


def _substitute_rows(
    work: RunContext, spark: SparkSession, table: Table, known: StructType | None, stand_in: Manifest | None
) -> DataFrame:
    if stand_in is not None:
        return frame_of_slices(spark, work.folder(table), [stand_in])
    return spark.createDataFrame([], known or written_schema(work.folder(table), table))


def _find_stand_in(work: RunContext, table: Table, label: datetime) -> Manifest | None:
    """Return the next undamaged slice after a label, else the last one before it, or None."""
    folder, pieces = work.folder(table), work.ledger.reads.slices(table.name, BEGINNING, FOREVER)
    later = [piece for piece in pieces if piece.label > label]
    earlier = [piece for piece in reversed(pieces) if piece.label < label]
    for piece in (*later, *earlier):
        if damage_of(folder, piece.slice_path) is None:
            return read_manifest(folder, piece.slice_path)
    return None
