"""Checks whether a slice's keys are unique, and that rows with the same key do not contradict each other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import StructType

from waterclock.errors import WaterclockError
from waterclock.files.filesystem import arrow_source, entry_path
from waterclock.spark_sql import quote_name
from waterclock.storage.fetched_rows import rows_of
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.digest import row_hash
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.order_bounds import order_struct
from waterclock.storage.slices.read import frame_of_slices

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.flow.merge_settings import Merge

# Up to this number of rows, this process groups the key columns in milliseconds; beyond it Spark does.
_MAX_ROWS_HERE = 2_000_000
_COUNT, _ORDER, _HASH = "_waterclock_count", "_waterclock_order", "_waterclock_hash"
_LEAST, _MOST = "_waterclock_least", "_waterclock_most"
# Arrow groups these types as Spark does. It does not for floats: it distinguishes 0.0 and -0.0
_LOCAL_KEY_TYPES = ("byte", "short", "integer", "long", "string", "date", "timestamp", "timestamp_ntz", "boolean")


def duplicate_keys(
    spark: SparkSession, folder: str, manifest: Manifest, keys: Sequence[str], *, most: int = 3
) -> list[tuple[Any, ...]]:
    """Return at most `most` of the keys that occur in more than one row of the slice.

    Cost: milliseconds up to two million rows of plain key types, a Spark job beyond.
    """
    if manifest.rows <= 1:
        return []
    if manifest.rows <= _MAX_ROWS_HERE and _can_group_locally(manifest, keys):
        return _find_duplicates(folder, manifest, keys, most)
    by_key = frame_of_slices(spark, folder, [manifest]).groupBy(*map(quote_name, keys))
    rows = by_key.agg(F.count(F.lit(1)).alias(_COUNT)).where(f"{_COUNT} > 1")
    return [row[: len(keys)] for row in rows_of(rows, most)]


def may_be_null(manifests: Iterable[Manifest], keys: Sequence[str]) -> bool:
    """Return whether a key of these slices may be NULL. If not, a join by `=` takes only two thirds of the time."""
    return any(file.nulls.get(key) != 0 for manifest in manifests for file in manifest.files for key in keys)


def same_key_sql(keys: Sequence[str], *, may_be_null: bool) -> str:
    """Return SQL that is TRUE if the rows `s` and `t` have the same key."""
    equals = "<=>" if may_be_null else "="
    return " AND ".join(f"s.{quote_name(key)} {equals} t.{quote_name(key)}" for key in keys)


def require_one_row_per_order(spark: SparkSession, folder: str, manifest: Manifest, merge: Merge) -> None:
    """Raise E620 if two different rows of a slice have the same key and order: it is unknown which one is last."""
    rows = frame_of_slices(spark, folder, [manifest])
    grouped = [F.col(quote_name(key)) for key in merge.keys]
    order = [order_struct(merge.order_by).alias(_ORDER)] if merge.order_by else []
    found = (
        rows.withColumn(_HASH, row_hash(StructType.fromJson(json.loads(manifest.schema))))
        .groupBy(*grouped, *order)
        .agg(F.min(_HASH).alias(_LEAST), F.max(_HASH).alias(_MOST))
        .where(f"{_LEAST} <> {_MOST}")
        .first()
    )
    if found is not None:
        key = ", ".join(f"{name} = {found[name]}" for name in merge.keys)
        what_orders = f"one {' and '.join(merge.order_by)}" if merge.order_by else "nothing that orders them"
        raise WaterclockError(
            "E620",
            f"two different rows of one key in {manifest.table}: {key}",
            where=manifest.slice_path,
            why=f"the batch has both, with {what_orders}, so neither is the last",
            fix="order them with MERGE ORDER BY a column that differs, or leave one of them out",
        )


def _can_group_locally(manifest: Manifest, keys: Sequence[str]) -> bool:
    types = {name: field["type"] for name, field in fields_of(manifest.schema).items()}
    return all(types.get(key) in _LOCAL_KEY_TYPES or str(types.get(key)).startswith("decimal") for key in keys)


def _find_duplicates(folder: str, manifest: Manifest, keys: Sequence[str], most: int) -> list[tuple[Any, ...]]:
    columns = list(keys)
    parts = [
        pq.ParquetFile(arrow_source(entry_path(folder, file.path))).read(columns=columns) for file in manifest.files
    ]
    rows = pa.concat_tables(parts, promote_options="permissive").select(columns)
    numbers = [str(number) for number in range(len(columns))]  # a key may have the name of an aggregate
    counted = rows.rename_columns(numbers).group_by(numbers).aggregate([([], "count_all")])
    if counted.num_rows == manifest.rows:
        return []
    doubled = counted.filter(pc.greater(counted["count_all"], 1)).slice(0, most)
    return [tuple(row[number] for number in numbers) for row in doubled.to_pylist()]
