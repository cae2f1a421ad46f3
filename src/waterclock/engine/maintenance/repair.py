"""Checks the slices of a table, seals damaged ones again if possible, and requests the labels of the others again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.batches.records import BatchResult, Slice, count_quarantined
from waterclock.engine.abandoned_claims import find_abandoned_claims
from waterclock.engine.batch.takeover import take_over
from waterclock.engine.damage import damaged_file, find_repair_verb, slice_error
from waterclock.engine.reads.pin import build_empty_frame
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.ledger.read.signatures import Difference
from waterclock.ledger.rebuild_errors import unsupported_change_error
from waterclock.storage.commit.pointers import kill_claim
from waterclock.storage.commit.rebuild import move_log, raise_versions, recreate
from waterclock.storage.folds.fold import add_ordering_columns
from waterclock.storage.folds.table_columns import written_schema
from waterclock.storage.folds.versions import table_schema_of
from waterclock.storage.log.delta_log import find_log_fault, head, table_exists
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.schema_types import fields_of, schema_text, widen_schema
from waterclock.storage.slices.damage import damage_of
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.reseal import RecordedSlice, reseal
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SliceCheck:
    """The result of checking slices: intact ones with their manifests, slices sealed again, and lost slices."""

    whole: tuple[Slice, ...]
    manifests: tuple[Manifest, ...]
    resealed: tuple[Slice, ...]
    lost: tuple[Slice, ...]


def find_slices(work: RunContext, spark: SparkSession, table: Table, slices: Sequence[Slice]) -> SliceCheck:
    """Check every slice, and seal again those that lost only their manifest. Cost: a read of each file's footer."""
    folder = work.folder(table)
    whole: list[tuple[Slice, Manifest]] = []
    resealed, lost = [], []
    for piece in slices:
        if damage_of(folder, piece.slice_path) is None:
            whole.append((piece, read_manifest(folder, piece.slice_path)))
            continue
        manifest = _reseal_slice(work, spark, table, piece)
        if manifest is None:
            lost.append(piece)
        else:
            whole.append((piece, manifest))
            resealed.append(piece)
    return SliceCheck(
        tuple(piece for piece, _ in whole), tuple(manifest for _, manifest in whole), tuple(resealed), tuple(lost)
    )


def missing_column_error(
    work: RunContext, table: Table, slices: Iterable[Slice | BatchResult], changes: Sequence[Difference]
) -> WaterclockError | None:
    """Return E432 if a slice has no column of its table's new keys or time: a rebuild would lose its rows. Else None.

    Cost: nothing if neither changes, else a read of each manifest and of each file's footer.
    """
    if not (table.is_fold and any(what == "keys" for what, _, _ in changes)):
        return None
    temporal, folder = table.temporal, work.folder(table)
    placing = table.keys if temporal is None else (*temporal.keys, *filter(None, [temporal.at]))
    for piece in slices:
        if not (piece.rows and piece.slice_path) or damage_of(folder, piece.slice_path) is not None:
            continue  # damaged slices are reported by `require_recoverable_slices`
        has = {name.lower() for name in fields_of(read_manifest(folder, piece.slice_path).schema)}
        missing = [name for name in placing if name.lower() not in has]
        if missing:
            why = f"the rows of {label_of(piece.label)} have no column {missing[0]}"
            return unsupported_change_error(table.name, changes, str(table.place), why=why)
    return None


def require_recoverable_slices(work: RunContext, table: Table, lost: Sequence[Slice]) -> None:
    """Raise E752 for a lost slice that cannot be made again, with the `skip` command that continues without it.

    A REPLACE table continues with its other slices, and raises no error.
    """
    for piece in lost:
        if table.mode is not Mode.REPLACE and find_repair_verb(work, table, piece.label) is None:
            where = f"{work.lake.location(table.name)}/{piece.slice_path}"
            why = damage_of(work.folder(table), piece.slice_path)
            raise slice_error(work, table, piece, where=where, why=why, is_manifest=False)


def request_lost_labels(work: RunContext, table: Table, lost: Sequence[Slice]) -> None:
    """Request that labels whose slices are lost are made again, by `recompute` or `recollect`."""
    for piece in lost:
        verb = find_repair_verb(work, table, piece.label)
        if verb is not None:
            work.ledger.decisions.request_restate(table.name, [piece.label], verb, who=work.settings.who)


def has_usable_log(work: RunContext, table: Table) -> bool:
    """Return whether a table's Delta log is readable and has every version that the ledger knows, with its rows."""
    folder, known = work.folder(table), work.ledger.reads.table(table.name).head_version
    if not table_exists(folder) or find_log_fault(folder, known) is not None:
        return False
    try:
        with open_table(folder):
            return True
    except WaterclockError as error:
        if error.code != "E643":
            raise
        return False


def kill_earlier_claim(work: RunContext, table: Table, claim: int | None) -> None:
    """Kill the claim of an earlier rebuild or reset that was taken over: its process may only be paused.

    Do nothing for a table without a usable log: nothing can be committed to it before `renew_log`.
    """
    if claim is not None and has_usable_log(work, table):
        kill_claim(work.folder(table), claim, project=work.flow.project)


def renew_log(
    work: RunContext, spark: SparkSession, table: Table, manifests: Sequence[Manifest], *, former: int | None
) -> None:
    """Replace a table's unusable Delta log by a new one, with a version above every one that was ever recorded.

    The claim of a `former` rebuild or reset is killed, as by `kill_earlier_claim`. Abandoned claims are resolved
    afterwards, since nothing could be committed before.
    """
    folder, above = work.folder(table), work.ledger.reads.table(table.name).head_version
    project = work.flow.project
    if _is_readable(folder):
        raise_versions(folder, project=project, above=above)
    else:
        above = max(above, head(folder))
        if table_exists(folder):
            move_log(folder, f"damaged-{work.real_now():%Y%m%dT%H%M%S%f}")
        schema = _schema_of(work, spark, table, manifests)
        recreate(folder, schema, is_partitioned=table.is_partitioned, project=project, above=above)
    if former is not None:
        kill_claim(folder, former, project=project)
    take_over(work, find_abandoned_claims(work))


def _is_readable(folder: str) -> bool:
    if not table_exists(folder):
        return False
    try:
        with open_table(folder):
            return True
    except WaterclockError:
        return False


def _schema_of(work: RunContext, spark: SparkSession, table: Table, manifests: Sequence[Manifest]) -> str:
    """Return the schema of a table without a log: that of its newest slice, or else the declared columns."""
    if not manifests:
        return schema_text(build_empty_frame(spark, work.lake, table).schema)
    newest = manifests[-1].schema
    return newest if table.temporal is None else table_schema_of(newest, table.temporal)


def _reseal_slice(work: RunContext, spark: SparkSession, table: Table, piece: Slice) -> Manifest | None:
    made = work.ledger.past.audit(table.name, piece.label).current
    if made is None or made.revision is None:
        return None
    known = RecordedSlice(
        table.name,
        piece.label,
        piece.claim,
        piece.slice_path,
        piece.rows,
        piece.digest,
        made.code,
        made.revision.source,
    )
    try:
        otherwise = schema_text(written_schema(work.folder(table), table))
    except WaterclockError:
        otherwise = None  # the log is damaged as well
    try:
        manifest = reseal(
            spark,
            work.folder(table),
            known,
            table.fold,
            otherwise=otherwise,
            complete=lambda schema: add_ordering_columns(widen_schema(schema, otherwise or schema) or schema, table),
            sort_by=table.file_order,
        )
    except Exception as raised:
        if damaged_file(work.lake, raised) is None:
            raise
        return None  # its rows cannot be read
    if manifest is not None:
        _report_lost_quarantine(work, table, manifest, count_quarantined(made.revision.measures))
    return manifest


def _report_lost_quarantine(work: RunContext, table: Table, manifest: Manifest, rows: int) -> None:
    """Report quarantined rows that are missing from the new manifest: only the lost one had their files and rules."""
    if rows <= manifest.aside_rows:
        return
    which = f"{table.name}@{label_of(manifest.label)}"
    verb = find_repair_verb(work, table, manifest.label)
    fix = f"Fix: `waterclock {verb} {which}`" if verb else "its source no longer has them"
    work.listener.on_message(
        f"{rows - manifest.aside_rows} quarantined rows of {which} are lost, as their files or their manifest were "
        f"damaged; {fix}"
    )
