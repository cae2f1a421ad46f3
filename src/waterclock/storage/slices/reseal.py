"""Seals a slice again if its manifest is lost and its files still contain the rows that were committed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from waterclock.errors import WaterclockError
from waterclock.files.filesystem import arrow_source, entry_path, file_exists, is_folder, move_file
from waterclock.flow.merge_settings import Merge, Temporal
from waterclock.storage.schema_types import fields_of, schema_text
from waterclock.storage.slices.damage import damage_of_file
from waterclock.storage.slices.digest import digest_of_row, digests
from waterclock.storage.slices.manifest import MANIFEST, DataFile, Manifest, fields_by_name, read_manifest, seal
from waterclock.storage.slices.order_bounds import fold_signature, order_measures
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.rule_marks import quarantine_digest
from waterclock.storage.slices.statistics import read_files
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"


@dataclass(frozen=True, slots=True)
class RecordedSlice:
    """The ledger's record of a slice, with which its files are compared."""

    table: str
    label: datetime
    claim: int
    slice_path: str
    rows: int
    digest: str | None
    code: str
    source: Mapping[str, Any]


def reseal(
    spark: SparkSession,
    folder: str,
    known: RecordedSlice,
    fold: Merge | Temporal | None,
    *,
    otherwise: str | None,
    complete: Callable[[str], str],
    sort_by: Sequence[str] = (),
) -> Manifest | None:
    """Write a slice's manifest again. Return None if its files do not contain the rows that the ledger recorded.

    The files of quarantined rows are kept only if they are intact and the former manifest, which describes them, can be
    read. `otherwise` is the schema for a slice without rows, if it is known: such a slice has no file that contains it.
    `complete` adds the columns of ORDER BY and DELETE WHEN to the schema of a slice that is older than them. An
    unreadable manifest is kept next to the new one. `sort_by` are the columns by which the files are sorted. Cost: one
    scan of the slice.
    """
    try:
        files = read_files(entry_path(folder), known.slice_path, also=sort_by)
        schema = _read_spark_schema(folder, files) or otherwise
    except (OSError, pa.ArrowException, ValueError):
        return None
    rows = sum(file.rows for file in files)
    if (
        schema is None
        or not is_folder(entry_path(folder, known.slice_path))
        or rows != known.rows
        or known.digest is None
    ):
        return None
    draft = Manifest(
        **fields_by_name(known),
        files=files,
        bytes=sum(file.size for file in files),
        schema=schema,
        sealed_at=datetime.now(UTC),
        **_find_quarantine(folder, known.slice_path),
    )
    measured = measure_rows(spark, folder, [draft], fold, complete).get(label_of(draft.label), {})
    if rows and (not measured or digest_of_row(measured) != known.digest):
        return None
    manifest = add_measures(draft, measured, fold)
    path = entry_path(folder, known.slice_path, MANIFEST)
    if file_exists(path):
        move_file(path, path.with_name(f"{MANIFEST}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"))
    seal(folder, manifest)
    return manifest


def _read_spark_schema(folder: str, files: tuple[DataFile, ...]) -> str | None:
    """Return the schema that Spark stored in a file, or None."""
    for file in files:
        metadata = pq.read_schema(arrow_source(entry_path(folder, file.path))).metadata or {}
        if _SPARK_SCHEMA in metadata:
            return schema_text(json.dumps(json.loads(metadata[_SPARK_SCHEMA])))
    return None


def _find_quarantine(folder: str, slice_path: str) -> dict[str, Any]:
    """Return the manifest's fields about quarantined rows, as far as they are intact. Empty without a readable one."""
    try:
        former = read_manifest(folder, slice_path)
    except WaterclockError:
        return {}
    aside = tuple(file for file in former.aside if damage_of_file(folder, file) is None)
    if not aside:
        return {}
    digest = former.aside_digest if aside == former.aside else quarantine_digest(folder, aside)
    names = ("aside_schema", "aside_rules")
    return {"aside": aside, "aside_digest": digest} | {name: getattr(former, name) for name in names}


def measure_rows(
    spark: SparkSession,
    folder: str,
    drafts: Sequence[Manifest],
    fold: Merge | Temporal | None,
    complete: Callable[[str], str],
) -> dict[str, dict[str, Any]]:
    """Compute the digest and the bounds of slices with one schema, by label. Slices without rows are absent.

    `complete` is that of `reseal`. Cost: one scan.
    """
    full = [draft for draft in drafts if draft.rows]
    if not full:
        return {}
    rows = frame_of_slices(spark, folder, full, complete(full[0].schema))
    measures = order_measures(fold) if isinstance(fold, Merge) else ()
    return digests(rows, measures, names=fields_of(full[0].schema).keys())


def add_measures(draft: Manifest, measured: Mapping[str, Any], fold: Merge | Temporal | None) -> Manifest:
    """Return the manifest of a slice with the bounds from `measure_rows`."""
    return replace(
        draft,
        has_deletes=bool(measured.get("_deletes")),
        order_high=measured.get("_order_high"),
        order_low=measured.get("_order_low"),
        delete_high=measured.get("_delete_high"),
        measured_for=fold_signature(fold),
    )
