"""Is a KEY unique in a sealed slice? One group-by: by Arrow where the slice is small, by Spark where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.storage.digest import quoted
from waterclock.storage.manifest import Manifest
from waterclock.storage.read import frame_of_slices

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Below it Arrow groups the key columns in some milliseconds, where a Spark job costs a tenth of a second.
GROUPED_BY_ARROW = 64 * 1024 * 1024
# Arrow and Spark do not agree on when floats and nested values are equal (NaN, -0.0): Spark decides there.
_SPARK_DECIDES = ("float", "double", "halffloat", "struct", "list", "map")


def duplicate_keys(
    spark: SparkSession, folder: str, manifest: Manifest, keys: Sequence[str], *, most: int
) -> list[tuple[Any, ...]]:
    """Find at most `most` keys that occur more than once in a sealed slice.

    Cost: reads the key columns; a Spark job with one exchange for a slice beyond `GROUPED_BY_ARROW` bytes.
    """
    if manifest.rows < 2:
        return []
    if manifest.bytes <= GROUPED_BY_ARROW:
        dataset = ds.dataset([str(Path(folder, file.path)) for file in manifest.files], format="parquet")
        if not any(str(dataset.schema.field(key).type).startswith(_SPARK_DECIDES) for key in keys):
            return _by_arrow(dataset, list(keys), most)
    return _by_spark(spark, folder, manifest, keys, most)


def _by_arrow(dataset: ds.Dataset, keys: list[str], most: int) -> list[tuple[Any, ...]]:
    counted = dataset.to_table(columns=keys).group_by(keys).aggregate([([], "count_all")])
    doubled = counted.filter(ds.field("count_all") > 1).slice(0, most).select(keys)
    return [tuple(row[key] for key in keys) for row in doubled.to_pylist()]


def _by_spark(
    spark: SparkSession, folder: str, manifest: Manifest, keys: Sequence[str], most: int
) -> list[tuple[Any, ...]]:
    columns = [F.col(quoted(key)) for key in keys]
    counted = frame_of_slices(spark, folder, [manifest]).groupBy(*columns).count()
    doubled = counted.where(F.col("count") > 1).select(*columns).limit(most)
    return [tuple(row) for row in doubled.collect()]
