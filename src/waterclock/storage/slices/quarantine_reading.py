"""Reads the quarantined rows of slices, as JSON or in their original columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import LongType, StringType, StructField, StructType

from waterclock.flow.origins import IN_ROWS
from waterclock.spark_sql import quote_name
from waterclock.storage.slices.digest import JSON_OPTIONS
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import frame_of_files
from waterclock.storage.slices.row_filter import FILE, FILE_ROW, INPUT, MASK, QUARANTINE_DETAILS, ROW, UNREAD
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIELDS = {ROW: StringType(), MASK: LongType(), FILE: StringType(), FILE_ROW: LongType(), INPUT: StringType()}
_ASIDE_TYPE = StructType([StructField(name, kind) for name, kind in _FIELDS.items()])
_READ_SCHEMA = StructType([StructField(TIMELABEL, StringType()), StructField(QUARANTINE_DETAILS, _ASIDE_TYPE)])


def quarantined_frame(spark: SparkSession, folder: str, manifests: Sequence[Manifest]) -> DataFrame:
    """Return the quarantined rows of slices: label, the row as JSON, the bits of the broken rules, and its origin.

    The origin is the row's file, or the input table from which it was read. Cost: no job here; one scan.
    """
    files = [file for manifest in manifests for file in manifest.aside]
    return frame_of_files(spark, folder, files, _READ_SCHEMA.json()).select(
        TIMELABEL, *(f"{QUARANTINE_DETAILS}.{name}" for name in _FIELDS)
    )


def read_original_rows(spark: SparkSession, folder: str, manifest: Manifest) -> DataFrame | None:
    """Return the quarantined rows of one slice in their original columns, or None if there are none.

    A column that a row does not have is NULL: one batch may have quarantined rows with different columns.
    """
    if not manifest.aside:
        return None
    original = StructType.fromJson(json.loads(manifest.aside_schema))
    read = F.from_json(F.col(ROW), original, JSON_OPTIONS)
    origin = [F.col(FILE).alias(IN_ROWS["file"]), F.col(FILE_ROW).alias(IN_ROWS["row"])]
    rows = quarantined_frame(spark, folder, [manifest]).select(read.alias(ROW), *origin)
    label = F.lit(label_of(manifest.label)).alias(TIMELABEL)
    names = {field.name: UNREAD if UNREAD in field.metadata else field.name for field in original.fields}
    columns = (F.col(f"{ROW}.{quote_name(at)}").alias(name) for at, name in names.items())
    return rows.select(label, *columns, *map(F.col, IN_ROWS.values()))
