"""Writes a batch's rows once, by Spark, as sealed slices in the table's own folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import StructType

from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, make_folder, remove_folder
from waterclock.flow.merge_settings import Merge, Temporal
from waterclock.spark_sql import quote_name
from waterclock.storage.lake import STAGE, Lake
from waterclock.storage.log.delta_log import table_of
from waterclock.storage.schema_types import schema_text
from waterclock.storage.slices.appended import append_slices
from waterclock.storage.slices.column_casts import row_error
from waterclock.storage.slices.digest import (
    HIGH,
    LOW,
    ROWS,
    digest_columns,
    digest_of_row,
    digest_texts,
    digests,
    row_hash,
    row_hash_text,
    rows_of,
)
from waterclock.storage.slices.file_splits import Split, possible_split, split_rows
from waterclock.storage.slices.input_filter import QuarantinedInputs
from waterclock.storage.slices.label_folders import (
    FOLDER,
    add_folder,
    move_if_there,
    move_into_place,
    require_known_labels,
)
from waterclock.storage.slices.manifest import DataFile, Manifest, require_unsealed, seal
from waterclock.storage.slices.order_bounds import fold_signature, order_measures
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.row_filter import (
    QUARANTINE,
    ROW_DROPPED,
    ROW_KEPT,
    ROW_OUTCOME,
    ROW_QUARANTINED,
    FilterCounts,
    RowFilterSettings,
    count_broken_rules,
    is_hidden,
)
from waterclock.storage.slices.row_order import sort_rows
from waterclock.storage.slices.rule_marks import add_rule_marks, count_rule_masks, quarantine_digest
from waterclock.storage.slices.statistics import read_files
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


# Up to this number, a group's digests are summed label by label during the write. Above it, and for measures by label,
# one grouped scan of the sealed files is used. It is as fast for few rows and faster for many: 24 labels of a million
# rows 17 s and 13 s, 48 labels 25 s and 14 s; 4 labels of a hundred rows 0.6 s and 0.7 s.
MOST_LABELS_IN_PASS = 16
_FATES = len((ROW_KEPT, ROW_QUARANTINED, ROW_DROPPED))
_MAX_OPEN_FILES = "spark.sql.maxConcurrentOutputFileWriters"
_HASH_COLUMN = "_waterclock_hash"
_INTERNAL_MEASURES = ("_deletes", "_order_high", "_order_low", "_delete_high", ROWS, HIGH, LOW)

Measures = Sequence[tuple[str, "Column"]]
AroundWrite = Callable[["DataFrame", str], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class QuarantinedRows:
    """The quarantined rows of one label: their files, their digest, and the counts of the row filter.

    `rules`: the names of the rules for the bits of quarantined rows.
    """

    files: tuple[DataFile, ...] = ()
    digest: str = ""
    filter_counts: FilterCounts | None = None
    masks: Mapping[int, int] = field(default_factory=dict)
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenSlices:
    """The sealed slices of one claim in label order, the measures of each, and the counts of the row filter, if any."""

    manifests: tuple[Manifest, ...]
    measures: Mapping[datetime, Mapping[str, Any]]
    filter_counts: Mapping[datetime, FilterCounts] = field(default_factory=dict)


def write_slices(  # noqa: PLR0913 - each argument is a part of a slice's manifest
    frame: DataFrame,
    *,
    folder: str,
    claim: int,
    labels: Sequence[datetime],
    lake: Lake,
    code: str,
    measures: Measures = (),
    fold: Merge | Temporal | None = None,
    source: Mapping[datetime, Mapping[str, Any]] | None = None,
    name: str = "",
    may_be_empty: bool = False,
    through: RowFilterSettings | None = None,
    quarantined_inputs: QuarantinedInputs | None = None,
    sort_by: Sequence[str] = (),
    clustering: Split | None = None,
    around_write: AroundWrite | None = None,
    appended_to: Mapping[datetime, Manifest] | None = None,
) -> WrittenSlices:
    """Write and seal one slice per label: one Spark job, and a scan if a group has measures or more than 16 labels.

    Measures of one label whose rows are filtered cost a scan of the columns that they name. `may_be_empty`: the frame
    is probably empty. Spark then mostly detects it in its plan, and no job runs for an empty one.

    A frame for several labels has them as text in the column `timelabel`; a single label is set here. A label without
    rows gets a sealed slice without files. Each slice's files have `timelabel` as the first column, for readers of the
    files without the table. `through`: the filter for rows that may be quarantined or dropped; measures count only rows
    that stay. The quarantined input rows in `quarantined_inputs` are sealed with the slices. The rows of each file are
    in the order of `sort_by`, columns of the frame; others are ignored. `clustering`: how the rows of a label are split
    into files; a large slice that it does not split is split by another job. `around_write` is entered with the rows
    and the path of their files before the job that writes them, and left after it. `appended_to`: slices with the same
    columns, whose files are those of the new slices of their labels as well; measures count the new rows only.

    Raises E604 if a slice of the claim is sealed already, and E606 if a row has a label that is not among `labels`.
    """
    paths = {label: lake.slice_path(label, claim) for label in labels}
    require_unsealed(folder, paths.values())
    ordered = _add_label(frame, labels)
    shown = StructType([field for field in ordered.schema.fields if not is_hidden(field.name)])
    draft = _SliceDraft(
        folder, name or table_of(folder), claim, schema_text(shown), code, through, fold_signature(fold),
        tuple(sort_by), around_write or _enter_nothing, possible_split(clustering, ordered),
    )  # fmt: skip
    ordered = split_rows(ordered, draft.clustering, labels)  # before rows are observed
    taken = [*measures, *(order_measures(fold) if isinstance(fold, Merge) else ())]
    aside: Mapping[datetime, QuarantinedRows] = {}
    is_nothing = may_be_empty and _is_empty(ordered, draft.table)
    if is_nothing:
        found = _write_empty(frame, draft, paths, measures)
        aside = {label: QuarantinedRows() for label in labels} if through else {}
    elif through is not None:
        found, aside = _write_filtered(ordered, draft, paths, through, is_measured=bool(taken))
    elif len(labels) == 1:
        row = _write_label(ordered, entry_path(folder, paths[labels[0]]), taken, draft)
        found = {labels[0]: row} if row else {}
    else:
        found = _write_group(ordered, draft, paths, taken)
    fault("written")
    is_split, spark = draft.clustering is not None, frame.sparkSession
    known = {} if clustering is None else clustering.finish(spark, folder, paths.values(), was_split=is_split)
    files = {
        label: known[path] if path in known else read_files(entry_path(folder), path, also=sort_by)
        for label, path in paths.items()
    }
    if not found:
        found = _scan_group(frame, draft, paths, files, taken)
    elif through is not None and taken and not is_nothing:
        [label] = labels
        found[label] = {**found[label], **_measure_label(frame, draft, label, paths[label], files[label], taken)}
    if through is not None:
        aside = {label: _collect_quarantine(draft, paths[label], files[label], aside[label]) for label in labels}
    if quarantined_inputs is not None:
        aside = {
            label: _add_quarantined_inputs(
                folder, label, paths[label], aside.get(label, QuarantinedRows()), quarantined_inputs
            )
            for label in labels
        }
    new = [
        draft.manifest(label, paths[label], files[label], found[label], (source or {}).get(label, {}), aside.get(label))
        for label in labels
    ]
    manifests = append_slices(appended_to or {}, new)
    for manifest in manifests:
        seal(folder, manifest)
    own = {
        label: {key: value for key, value in row.items() if key not in _INTERNAL_MEASURES}
        for label, row in found.items()
    }
    return WrittenSlices(
        manifests, own, {label: each.filter_counts for label, each in aside.items() if each.filter_counts}
    )


def _enter_nothing(rows: DataFrame, path: str) -> AbstractContextManager[None]:  # noqa: ARG001
    return nullcontext()


@dataclass(frozen=True, slots=True)
class _SliceDraft:
    """The values that the manifests of all slices of one claim have in common."""

    folder: str
    table: str
    claim: int
    schema: str
    code: str
    through: RowFilterSettings | None = None
    measured_for: str = ""
    sort_by: tuple[str, ...] = ()
    around_write: AroundWrite = _enter_nothing
    clustering: Split | None = None

    def sort(self, rows: DataFrame, *folders: str) -> DataFrame:
        """Return the rows of each task in the order of the files. `folders`: the columns that name their folders."""
        position = None if self.clustering is None else self.clustering.curve_position(rows)
        return sort_rows(rows, self.sort_by, folders=folders, position=position)

    def manifest(
        self,
        label: datetime,
        slice_path: str,
        files: tuple[DataFile, ...],
        found: Mapping[str, Any],
        source: Mapping[str, Any],
        aside: QuarantinedRows | None = None,
    ) -> Manifest:
        aside = aside or QuarantinedRows()
        rows = sum(file.rows for file in files)
        digest = digest_of_row(found) if found else None
        return Manifest(
            table=self.table,
            label=label,
            claim=self.claim,
            slice_path=slice_path,
            files=files,
            rows=rows,
            bytes=sum(file.size for file in files),
            # rows of a task that ran twice are counted twice: such a digest equals no other
            digest=digest if digest and rows_of(digest) == rows else None,
            schema=self.schema,
            code=self.code,
            source=source,
            sealed_at=datetime.now(UTC),
            has_deletes=bool(found.get("_deletes")),
            order_high=found.get("_order_high"),
            order_low=found.get("_order_low"),
            delete_high=found.get("_delete_high"),
            measured_for=self.measured_for,
            aside=aside.files,
            aside_schema=self.through.raw_schema if self.through and aside.files else "",
            aside_rules=aside.rules if aside.files else (),
            aside_digest=aside.digest,
            **({} if self.clustering is None else self.clustering.to_manifest()),
        )


def _add_label(frame: DataFrame, labels: Sequence[datetime]) -> DataFrame:
    if len(labels) > 1:
        others = [F.col(quote_name(name)) for name in frame.columns if name.lower() != TIMELABEL]
        return frame.select(F.col(TIMELABEL).cast("string").alias(TIMELABEL), *others)
    bare = frame.drop(TIMELABEL) if TIMELABEL in map(str.lower, frame.columns) else frame
    return bare.select(F.expr(f"'{label_of(labels[0])}' AS {TIMELABEL}"), "*")


def _write_label(frame: DataFrame, leaf: Path, measures: Measures, draft: _SliceDraft) -> Mapping[str, Any]:
    """Write one label. Return its digest and measures, or nothing if a scan must compute them."""
    seen = Observation()
    columns = [*digest_columns(frame.schema), *(column.alias(name) for name, column in measures)]
    fault("make")
    with _convert_cast_errors(draft.table), draft.around_write(frame, str(leaf)):
        observed = _try_observe(frame, seen, columns)
        rows = draft.sort(frame if observed is None else observed)
        rows.write.mode("overwrite").parquet(str(leaf))
    if observed is None:
        return {}
    # the write has returned, so the observation exists: requested earlier it could block forever
    return seen.get


def _try_observe(frame: DataFrame, seen: Observation, columns: Sequence[Column]) -> DataFrame | None:
    """Return the frame with an observation of its rows. Return None if a measure calls a declared SQL function."""
    try:
        return frame.observe(seen, *columns)
    except PySparkException as raised:
        if raised.getCondition() != "UNSUPPORTED_SQL_UDF_USAGE":
            raise
        return None


def _write_filtered(
    frame: DataFrame,
    draft: _SliceDraft,
    paths: Mapping[datetime, str],
    through: RowFilterSettings,
    *,
    is_measured: bool,
) -> tuple[dict[datetime, Mapping[str, Any]], dict[datetime, QuarantinedRows]]:
    """Write all labels in one job, and kept, quarantined and dropped rows separately.

    Return the digests and the removed rows. Dropped rows are written without their values, then counted and removed, so
    their number is exact even if tasks ran twice. Measures count only rows that stay, and need a later scan. In a group
    of labels that has measures, or more than 16 labels, the digests need this scan, too.
    """
    scratch_path = f"{STAGE}/c={draft.claim}"
    scratch = entry_path(draft.folder, scratch_path)
    remove_folder(scratch)
    is_group = len(paths) > 1
    in_pass = not is_group or (len(paths) <= MOST_LABELS_IN_PASS and not is_measured)
    rows = add_rule_marks(frame, through)
    seen = Observation()
    fault("make")
    with (
        _convert_cast_errors(draft.table),
        draft.around_write(rows, str(scratch)),
        nullcontext() if is_group else _limit_open_files(frame.sparkSession, _FATES),
    ):
        rows = _observe_digests(rows, seen, list(paths)) if in_pass else rows
        if is_group:
            rows = add_folder(rows, is_split=draft.clustering is not None)
        rows = draft.sort(rows, *([FOLDER, ROW_OUTCOME] if is_group else []))
        rows.write.partitionBy(*([FOLDER] if is_group else []), ROW_OUTCOME).parquet(str(scratch))
    fault("group_written")
    require_known_labels(scratch, paths, draft.folder, is_group=is_group)
    aside = {}
    for label, path in paths.items():
        source_path = f"{scratch_path}/{FOLDER}={label_of(label)}" if is_group else scratch_path
        gone = read_files(entry_path(draft.folder), f"{source_path}/{ROW_OUTCOME}={ROW_DROPPED}")
        aside[label] = QuarantinedRows(masks=count_rule_masks(draft.folder, gone))
        leaf = entry_path(draft.folder, path)
        remove_folder(leaf)
        make_folder(leaf.parent)
        if not move_if_there(entry_path(draft.folder, source_path, f"{ROW_OUTCOME}={ROW_KEPT}"), leaf):
            make_folder(leaf)
        move_if_there(entry_path(draft.folder, source_path, f"{ROW_OUTCOME}={ROW_QUARANTINED}"), leaf / QUARANTINE)
    remove_folder(scratch)
    if not in_pass:
        return {}, aside
    row = seen.get
    return {label: {key: row[f"{key}{index}"] for key in (ROWS, HIGH, LOW)} for index, label in enumerate(paths)}, aside


def _collect_quarantine(
    draft: _SliceDraft, path: str, files: Sequence[DataFile], gone: QuarantinedRows
) -> QuarantinedRows:
    """Return the quarantined files and the counts of one label's rows."""
    if draft.through is None:
        raise AssertionError("rows that were not filtered")
    row_filter, folder = draft.through.row_filter, draft.folder
    aside = read_files(entry_path(folder), f"{path}/{QUARANTINE}")
    masks = count_rule_masks(folder, aside) + Counter(gone.masks)
    if row_filter.bits(ROW_KEPT):
        masks += count_rule_masks(folder, files)
    filter_counts = count_broken_rules(row_filter, masks, sum(file.rows for file in files))
    return QuarantinedRows(
        aside,
        quarantine_digest(folder, aside),
        filter_counts,
        rules=tuple(row_rule.name for row_rule in row_filter.row_rules),
    )


def _add_quarantined_inputs(
    folder: str, label: datetime, path: str, own: QuarantinedRows, quarantined_inputs: QuarantinedInputs
) -> QuarantinedRows:
    """Add the quarantined input rows of a batch to its own quarantined rows."""
    files = (*own.files, *quarantined_inputs.move_files(folder, label, path))
    return replace(
        own, files=files, digest=quarantine_digest(folder, files), rules=(*own.rules, *quarantined_inputs.rules)
    )


def _write_group(
    frame: DataFrame, draft: _SliceDraft, paths: Mapping[datetime, str], measures: Measures
) -> dict[datetime, Mapping[str, Any]]:
    """Write all labels in one job, and move each to its slice's folder.

    Return the digests by label, or an empty dict if a scan must compute them.
    """
    scratch = entry_path(draft.folder, STAGE, f"c={draft.claim}")
    remove_folder(scratch)
    in_pass = len(paths) <= MOST_LABELS_IN_PASS and not measures
    seen = Observation()
    fault("make")
    rows = _observe_digests(frame, seen, list(paths)) if in_pass else frame
    rows = draft.sort(add_folder(rows, is_split=draft.clustering is not None), FOLDER)
    with _convert_cast_errors(draft.table), draft.around_write(rows, str(scratch)):
        rows.write.partitionBy(FOLDER).parquet(str(scratch))
    fault("group_written")
    move_into_place(scratch, draft.folder, paths)
    if not in_pass:
        return {}
    row = seen.get
    return {label: {key: row[f"{key}{index}"] for key in (ROWS, HIGH, LOW)} for index, label in enumerate(paths)}


@contextmanager
def _limit_open_files(spark: SparkSession, folders: int) -> Iterator[None]:
    """Allow each task to write to this number of folders concurrently. Otherwise Spark sorts all rows by their folders.

    Groups of labels are not written like this: an open file keeps up to 128 MiB of its rows in memory.
    """
    before = spark.conf.get(_MAX_OPEN_FILES, "0") or "0"
    spark.conf.set(_MAX_OPEN_FILES, str(folders))
    try:
        yield
    finally:
        spark.conf.set(_MAX_OPEN_FILES, before)


@contextmanager
def _convert_cast_errors(table: str) -> Iterator[None]:
    """Convert the failure of a cast into an error that names the column."""
    try:
        yield
    except PySparkException as raised:
        error = row_error(raised, table=table)
        if error is None:
            raise
        raise error from raised


def _observe_digests(frame: DataFrame, seen: Observation, labels: Sequence[datetime]) -> DataFrame:
    shown = StructType([field for field in frame.schema.fields if not is_hidden(field.name)])
    if len(labels) == 1:  # a separate hash column would cost one more copy of each row, just to remove it again
        own = f"if({ROW_OUTCOME} = {ROW_KEPT}, {row_hash_text(shown)}, NULL)"
        return frame.observe(seen, *map(F.expr, digest_texts(own, suffix="0")))
    hashed = frame.withColumn(_HASH_COLUMN, row_hash(shown))
    stays = f" AND {ROW_OUTCOME} = {ROW_KEPT}" if ROW_OUTCOME in frame.columns else ""
    texts: list[str] = []
    for index, label in enumerate(labels):
        own = f"if({TIMELABEL} = '{label_of(label)}'{stays}, {_HASH_COLUMN}, NULL)"
        texts += digest_texts(own, suffix=str(index))
    return hashed.observe(seen, *map(F.expr, texts)).drop(_HASH_COLUMN)


def _scan_group(
    frame: DataFrame,
    draft: _SliceDraft,
    paths: Mapping[datetime, str],
    files: Mapping[datetime, tuple[DataFile, ...]],
    measures: Measures,
) -> dict[datetime, Mapping[str, Any]]:
    """Compute digests and measures of a group by one scan of its files.

    A label without rows gets the digest and the measures of an empty slice.
    """
    drafts = [draft.manifest(label, paths[label], files[label], {}, {}) for label in paths]
    rows = digests(frame_of_slices(frame.sparkSession, draft.folder, drafts, draft.schema), measures)
    nothing = _measures_without_rows(frame, measures) if len(rows) < len(paths) else {}
    return {label: rows.get(label_of(label), nothing) for label in paths}


def _measure_label(
    frame: DataFrame,
    draft: _SliceDraft,
    label: datetime,
    path: str,
    files: tuple[DataFile, ...],
    measures: Measures,
) -> dict[str, Any]:
    """Measure the sealed rows of one label. Cost: one job over the columns that the measures name."""
    sealed = frame_of_slices(
        frame.sparkSession, draft.folder, [draft.manifest(label, path, files, {}, {})], draft.schema
    )
    [row] = sealed.agg(*(column.alias(name) for name, column in measures)).collect()
    return dict(row.asDict())


def _measures_without_rows(frame: DataFrame, measures: Measures) -> dict[str, Any]:
    """Return the digest and the measures of an empty slice. Spark computes the counts and sums of an empty frame."""
    nothing: dict[str, Any] = {ROWS: 0, HIGH: 0, LOW: 0}
    if measures:
        found = frame.limit(0).agg(*(column.alias(name) for name, column in measures)).first()
        nothing |= found.asDict() if found else {}
    return nothing


def _is_empty(frame: DataFrame, table: str) -> bool:
    with _convert_cast_errors(table):
        return bool(frame.isEmpty())


def _write_empty(
    frame: DataFrame, draft: _SliceDraft, paths: Mapping[datetime, str], measures: Measures
) -> dict[datetime, Mapping[str, Any]]:
    """Create an empty folder for each label."""
    fault("make")
    for path in paths.values():
        leaf = entry_path(draft.folder, path)
        remove_folder(leaf)
        make_folder(leaf)
    return dict.fromkeys(paths, _measures_without_rows(frame, measures))
