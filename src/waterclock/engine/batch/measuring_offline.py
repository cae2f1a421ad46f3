"""Measures tables by jobs of their own, at each cadence of OFFLINE, independently of the batches.

A round measures the labels that became visible since the previous round, including restated ones. It then merges the
measures of all labels within each cadence (a span). A failed round is reported, and affects no batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from waterclock.batches.offline import (
    LabelMeasures,
    OfflineRun,
    SpanMeasures,
    cadence_of,
    has_spans,
    spans_of,
    to_measure,
)
from waterclock.batches.records import Slice
from waterclock.engine.batch.offline_measure_sql import (
    OfflineMeasure,
    aggregate_columns,
    counts_of,
    merged_columns,
    states_in,
)
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error
from waterclock.engine.spark.user_functions import register_functions
from waterclock.flow.declarations import Table
from waterclock.flow.measures import MeasuredValue, Offline
from waterclock.storage.schema_types import widen_schema
from waterclock.storage.slices.manifest import Manifest, is_sealed, read_manifest
from waterclock.storage.slices.read import frame_of_slices, no_rows
from waterclock.timelabel.label import TIMELABEL, instant_of, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_LABELS = 10_000  # per round; the next round measures the others
_MOST_FILES = 400  # per job
_LEASE = timedelta(minutes=30)
_SPAN = "wc_span"


def measure_offline(
    work: RunContext, table: Table, last_run: OfflineRun | None, now: datetime, current: Mapping[datetime, Slice]
) -> None:
    """Measure the labels of a table whose current slice, in `current`, was not measured yet.

    Success and failure are reported; a failure raises nothing. `last_run` is the previous round. Cost: a job for some
    hundred files, and a small one if labels are merged.
    """
    offline, kept = _offline(table), work.ledger.offline
    claims = {label: piece.claim for label, piece in current.items()}
    labels = to_measure(table, claims, kept.list_measured_labels(table.name), _MOST_LABELS)
    if not kept.reserve_measurement(table.name, seen=None if last_run is None else last_run.looked_at, lease=_LEASE):
        return
    begun, error, spans = time.perf_counter(), None, list[SpanMeasures]()
    try:
        spans = _measure_labels(work, table, [current[label] for label in labels], claims) if labels else []
    except Exception as raised:  # noqa: BLE001 - any failure is reported, and fails no batch
        error = to_error(raised, where=table.name)
    newest = max((cadence_of(table).floor(label) for label in current), default=None)
    kept.finish_measurement(
        table.name,
        offline.code,
        looked_at=now,
        labels=0 if error else len(labels),
        seconds=round(time.perf_counter() - begun, 3),
        spans=spans,
        forget_before=None
        if newest is None or not has_spans(table)
        else cadence_of(table).floor(newest - timedelta(1)),
        error=None if error is None else f"{error.code} {error.what}",
    )
    if error is not None:
        work.listener.on_message(f"{table.name}: measuring offline failed: {error.code} {error.what}")
    elif labels:
        work.listener.on_message(f"{table.name}: {len(labels)} label{'' if len(labels) == 1 else 's'} measured offline")


def _measure_labels(
    work: RunContext, table: Table, pieces: Sequence[Slice], claims: Mapping[datetime, int]
) -> list[SpanMeasures]:
    """Measure labels, by a job for each few hundred of their files. Return the merged measures of their spans."""
    spark = work.sessions.own()
    try:
        work.record_spark_page()
        register_functions(spark, work.root, work.flow, table.expressions, work.keys)
        counts: list[OfflineMeasure] = []
        for manifests, gone in _split_into_jobs(work.folder(table), pieces):
            rows = _read_slices(spark, work.folder(table), manifests) if manifests else None
            own = [] if rows is None else counts_of(_offline(table), rows, is_merging=has_spans(table))
            found = [*_count_labels(spark, manifests, rows, own, claims), *_build_empty_results(gone)]
            work.ledger.offline.record_measurements(table.name, _offline(table).code, found)
            counts = counts or own
        return (
            list(_merge_spans(work, spark, table, counts, [it.label for it in pieces], claims))
            if has_spans(table)
            else []
        )
    finally:
        work.sessions.release(spark)


def _split_into_jobs(folder: str, pieces: Iterable[Slice]) -> Iterator[tuple[list[Manifest], list[Slice]]]:
    """Split slices into jobs by number of files. Yield a job's manifests, and the slices whose files are gone."""
    manifests: list[Manifest] = []
    gone: list[Slice] = []
    files = 0
    for piece in pieces:
        if not is_sealed(folder, piece.slice_path):
            gone.append(piece)
            continue
        manifest = read_manifest(folder, piece.slice_path)
        if manifests and files + len(manifest.files) > _MOST_FILES:
            yield manifests, gone
            manifests, gone, files = [], [], 0
        manifests.append(manifest)
        files += len(manifest.files)
    if manifests or gone:
        yield manifests, gone


def _read_slices(spark: SparkSession, folder: str, manifests: Sequence[Manifest]) -> DataFrame:
    newest, *others = sorted(manifests, key=lambda each: each.label, reverse=True)
    schema = newest.schema
    for other in others:
        schema = widen_schema(schema, other.schema) or schema
    return frame_of_slices(spark, folder, manifests, schema)


def _count_labels(
    spark: SparkSession,
    manifests: Sequence[Manifest],
    rows: DataFrame | None,
    counts: Sequence[OfflineMeasure],
    claims: Mapping[datetime, int],
) -> Iterator[LabelMeasures]:
    """Yield the measures of each label: one job, plus one on an empty frame if a label has no rows."""
    if rows is None or not counts:
        return
    columns = aggregate_columns(counts)
    by_label = {row[TIMELABEL]: row.asDict() for row in rows.groupBy(TIMELABEL).agg(*columns).collect()}
    empty: dict[str, Any] | None = None
    for manifest in manifests:
        row = by_label.get(label_of(manifest.label))
        if row is None:
            if empty is None:
                empty = no_rows(spark, rows.schema).agg(*columns).collect()[0].asDict()
            row = empty
        yield LabelMeasures(
            manifest.label, claims[manifest.label], _measured_values(counts, row), states_in(counts, row) or None
        )


def _measured_values(counts: Iterable[OfflineMeasure], row: Mapping[str, Any]) -> dict[str, MeasuredValue]:
    return {count.name: MeasuredValue(row[f"v{at}"], row[f"t{at}"]) for at, count in enumerate(counts)}


def _build_empty_results(gone: Iterable[Slice]) -> Iterator[LabelMeasures]:
    """Yield empty results for labels whose files are gone, so that they are not tried again."""
    return (LabelMeasures(piece.label, piece.claim, {}) for piece in gone)


def _merge_spans(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    counts: Sequence[OfflineMeasure],
    labels: Iterable[datetime],
    claims: Mapping[datetime, int],
) -> Iterator[SpanMeasures]:
    """Yield the merged values of each span, from the stored partial aggregates of its labels: one small job."""
    grid, lows = cadence_of(table), sorted(spans_of(table, labels))
    kept = work.ledger.offline.states(table.name, lows[0], grid.next(lows[-1])) if counts else {}
    of_span: dict[datetime, list[Mapping[str, Sequence[str]]]] = {low: [] for low in lows}
    for label, (claim, states) in sorted(kept.items()):
        if grid.floor(label) in of_span and claims.get(label) == claim:
            of_span[grid.floor(label)].append(states)
    alike = {
        at: count
        for at, count in enumerate(counts)
        if count.states and all(it.get(count.name, [""])[0] == count.signature for of in of_span.values() for it in of)
    }
    if not alike:
        return
    rows = _states_frame(spark, of_span, alike)
    for row in rows.groupBy(_SPAN).agg(*merged_columns(alike)).collect():
        low = instant_of(row[_SPAN])
        found = {count.name: MeasuredValue(row[f"v{at}"], row[f"t{at}"]) for at, count in alike.items()}
        yield SpanMeasures(low, grid.next(low), len(of_span[low]), found)


def _states_frame(
    spark: SparkSession,
    of_span: Mapping[datetime, Sequence[Mapping[str, Sequence[str]]]],
    alike: Mapping[int, OfflineMeasure],
) -> DataFrame:
    import pyarrow as pa

    rows = [(label_of(low), states) for low, of in of_span.items() for states in of]
    columns = {_SPAN: pa.array([low for low, _ in rows], pa.string())}
    for at, count in alike.items():
        for number in range(len(count.columns)):
            texts = [states[count.name][1 + number] for _, states in rows]
            columns[f"s{at}_{number}"] = pa.array(texts, pa.string())
    return spark.createDataFrame(pa.table(columns))


def _offline(table: Table) -> Offline:
    if table.offline is None:
        raise AssertionError(f"{table.name} measures nothing offline, and its caller did not ask")
    return table.offline
