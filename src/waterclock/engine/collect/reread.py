"""Makes done labels of a collect again from stored data: the items that arrived, or else the sealed slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from waterclock.batches.records import Slice
from waterclock.batches.schemas import SCHEMA
from waterclock.connectors.interface import ArrivalCollector, Collected, Collector, Item, PositionCollector
from waterclock.engine.collect.change_scans import CHANGED, LOOKED
from waterclock.engine.collect.collect_result import RECOMPUTED, CollectResult
from waterclock.engine.collect.positions import items_of
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.checks import columns_to_request, keeps_unread
from waterclock.flow.declarations import Table, Unit
from waterclock.flow.enums import Batching
from waterclock.planner.plan import Group
from waterclock.storage.slices.manifest import read_manifest
from waterclock.storage.slices.quarantine_reading import read_original_rows
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.row_filter import UNREAD
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_OF_A_LINE = 60


def reread_labels(
    work: RunContext, spark: SparkSession, table: Table, group: Group, unit: Unit, collector: Collector
) -> CollectResult:
    """Return the rows of done labels as they were collected, in the columns that are declared today.

    Arrived items are read again from their current path, so that a column declared since is filled. Rows that were
    collected by data time, and snapshots, are read from the sealed slices. Raises E823 if an item is missing or has
    another size, E806 if unreadable lines were quarantined and no rule for them is declared any more.
    """
    folder, aside = work.folder(table), None
    pieces = {
        batch.label: piece
        for batch in group.batches
        for piece in work.ledger.reads.slices(table.name, batch.window.start, batch.window.end)
    }
    if is_by_arrival(table) and isinstance(collector, ArrivalCollector | PositionCollector):
        sources = {label: source_notes_of(work, table, piece) for label, piece in pieces.items()}
        items = items_of(sources)
        if isinstance(collector, ArrivalCollector):
            items = _find_items(table, unit, collector, sources)
        collected = collector.read_items(spark, unit, items, columns_to_request(table), table.cadence.zone)
    else:
        kept = {label: read_manifest(folder, piece.slice_path) for label, piece in pieces.items()}
        sources = {label: manifest.source for label, manifest in kept.items()}
        collected = Collected(frame_of_slices(spark, folder, tuple(kept.values())))
        quarantined = [rows for it in kept.values() if (rows := read_original_rows(spark, folder, it)) is not None]
        aside = (
            reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), quarantined)
            if quarantined
            else None
        )
        if aside is not None and UNREAD in aside.columns and not keeps_unread(table.columns):
            _require_no_unreadable_lines(table, aside)
    again = {
        # the scan position and the new columns remain notes of the slice that found them
        label: {name: of for name, of in source.items() if name not in {LOOKED, CHANGED, SCHEMA}}
        | {RECOMPUTED: pieces[label].slice_path}
        for label, source in sources.items()
    }
    return CollectResult(collected, again, quarantined=aside)


def _require_no_unreadable_lines(table: Table, aside: DataFrame) -> None:
    """Raise E806 if unreadable lines are quarantined: no rule accepts them any more, and they have no column values.

    Cost: a job over the quarantined rows, if parsed() is no longer declared.
    """
    line = aside.where(f"{UNREAD} IS NOT NULL").selectExpr(TIMELABEL, f"left({UNREAD}, {_MOST_OF_A_LINE})").first()
    if line is not None:
        raise WaterclockError(
            "E806",
            "unreadable lines are quarantined, and no rule accepts them any more",
            where=f"{table.name}@{line[0]}",
            why=f"one is {line[1]!r}; without EXPECT parsed() such a line fails its batch",
            fix="declare EXPECT parsed() ELSE QUARANTINE again, or fix the source and `waterclock recollect`",
        )


def source_notes_of(work: RunContext, table: Table, piece: Slice) -> Mapping[str, Any]:
    """Return what the connector recorded about a label's source, such as a scan position or file names.

    It is read from the manifest, or from the ledger if the manifest is damaged.
    """
    try:
        return read_manifest(work.folder(table), piece.slice_path).source
    except WaterclockError:
        made = work.ledger.past.audit(table.name, piece.label).current
        return {} if made is None or made.revision is None else made.revision.source


def is_by_arrival(table: Table) -> bool:
    """Return whether a table collects files or records by the time of their arrival."""
    return table.source is not None and table.source.batching is Batching.ARRIVAL_TIME


def _find_items(
    table: Table, unit: Unit, collector: ArrivalCollector, sources: Mapping[datetime, Mapping[str, Any]]
) -> dict[datetime, Sequence[Item]]:
    noted = {
        label: {str(item["name"]): item.get("size") for item in of.get("items", ())} for label, of in sources.items()
    }
    present = {item.name: item for item in collector.find(unit, {name for of in noted.values() for name in of})}
    for label, wanted in noted.items():
        where = f"{table.name}@{label_of(label)}"
        gone = [name for name in wanted if name not in present]
        if gone:
            raise WaterclockError(
                "E823",
                f"{gone[0]} is gone" if len(gone) == 1 else f"{gone[0]} and {len(gone) - 1} more are gone",
                where=where,
                why="the label was made from it, and it is neither in its landing place nor in the archive",
                fix="put it back into the archive; the label keeps its rows until then",
            )
        for name, size in wanted.items():
            found = present[name]
            if size is not None and size != found.size and size not in found.earlier_sizes:
                raise WaterclockError(
                    "E823",
                    f"{name} is not as it was collected",
                    where=where,
                    why=f"{found.path} has {found.size} bytes; it had {size} when the label was made",
                    fix="restore it from a backup; the label keeps its rows until then",
                )
    return {label: tuple(present[name] for name in wanted) for label, wanted in noted.items()}
