"""Answers queries of `schema.table_quarantine`: the quarantined rows of a table's current batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql.functions import broadcast

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.batches.records import Slice
from waterclock.engine.query.ticks import ResolvedTick
from waterclock.engine.reads.as_of import resolve_as_of
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Mode
from waterclock.spark_sql import sql_text
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.quarantine_reading import quarantined_frame
from waterclock.storage.slices.row_filter import FILE, FILE_ROW, INPUT, MASK, ROW
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUFFIX = "_quarantine"
_EMPTY = (
    "timelabel STRING, `row` STRING, broken ARRAY<STRING>, claim BIGINT, code STRING, file STRING, file_row BIGINT, "
    "input STRING"
)


def quarantine_views(flow: Flow) -> dict[str, str]:
    """Map the name of each `_quarantine` view to its table. Every table has such a view, mostly without rows."""
    return {f"{name}{SUFFIX}": name for name in flow.tables}


def quarantine_frame(work: RunContext, spark: SparkSession, table: Table, moment: ResolvedTick | None) -> DataFrame:
    """Return quarantined rows: the original row as JSON, the broken rules, label, claim, code, file and input.

    For a REPLACE table they are those of its current state; for all others, those of all labels. `moment` None means
    now. Cost: a read of the manifest of each slice with quarantined rows; as of a tick, of each slice before it. One
    scan for all slices that were checked by the same rules.
    """
    folder = work.folder(table)
    paths = _current_paths(work, table) if moment is None else _paths_as_of(work, table, moment)
    found = [manifest for path in paths if (manifest := read_manifest(folder, path)).aside]
    return frame_of_quarantine(spark, folder, found) if found else spark.createDataFrame([], _EMPTY)


def frame_of_quarantine(spark: SparkSession, folder: str, manifests: Sequence[Manifest]) -> DataFrame:
    """Return the quarantined rows of one or more slices, in the columns of a `_quarantine` view."""
    of_rules = (_quarantined_rows(spark, folder, each) for each in _group_by_rules(manifests))
    return reduce(lambda left, right: left.unionByName(right), of_rules)


def _current_paths(work: RunContext, table: Table) -> list[str]:
    dropped = work.ledger.maintenance.drop_boundary(table.name, by=FOREVER) or BEGINNING
    pieces = [
        it for it in work.ledger.reads.list_quarantine_slices(table.name) if it.slice_path and it.label >= dropped
    ]
    return [piece.slice_path for piece in _filter_retained(work, table, pieces)]


def _filter_retained(work: RunContext, table: Table, pieces: list[Slice]) -> list[Slice]:
    if table.mode is Mode.REPLACE:
        head = work.ledger.reads.table(table.name).head_label
        return [piece for piece in pieces if piece.label == head]
    newest = work.ledger.reads.newest(table.name) if table.retain is not None else None
    if table.retain is None or table.mode is not Mode.APPEND or newest is None:
        return pieces
    since = table.cadence.ceil(table.retain.subtract_from(newest.end, table.cadence.zone))
    return [piece for piece in pieces if piece.label >= since]


def _paths_as_of(work: RunContext, table: Table, moment: ResolvedTick) -> list[str]:
    found = resolve_as_of(work, table, moment.tick, known_at=moment.known_at)
    return [step.slice_path for step in found.steps if step.slice_path]


def _group_by_rules(manifests: Iterable[Manifest]) -> list[list[Manifest]]:
    """Group slices that were checked by the same rules. Slices of one label are in different groups."""
    found: dict[tuple[tuple[str, ...], int], list[Manifest]] = {}
    seen: Counter[tuple[tuple[str, ...], datetime]] = Counter()
    for manifest in manifests:
        own = manifest.aside_rules, manifest.label
        found.setdefault((manifest.aside_rules, seen[own]), []).append(manifest)
        seen[own] += 1
    return list(found.values())


def _quarantined_rows(spark: SparkSession, folder: str, manifests: Sequence[Manifest]) -> DataFrame:
    """Return the quarantined rows of one group of slices (see `_group_by_rules`)."""
    names = ", ".join(map(sql_text, manifests[0].aside_rules))
    broken = f"filter(array({names}), (it, at) -> ({MASK} & shiftleft(1L, at)) != 0)"
    of_claims = [(label_of(it.label), it.claim, it.code) for it in manifests]
    claims = spark.createDataFrame(of_claims, f"{TIMELABEL} STRING, claim BIGINT, code STRING")
    rows = quarantined_frame(spark, folder, manifests).join(broadcast(claims), TIMELABEL)
    return rows.selectExpr(TIMELABEL, f"`{ROW}`", f"{broken} AS broken", "claim", "code", FILE, FILE_ROW, INPUT)
