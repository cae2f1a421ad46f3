"""Counts the versions of a TEMPORAL table's keys, by which a join that looks up rows by time chooses its plan."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.files.filesystem import arrow_source, entry_path
from waterclock.spark_sql import quote_name
from waterclock.storage.folds.versions import EFFECTIVE
from waterclock.storage.log.live_files import is_plain, live_files, open_kept_version
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.slices.read import frame_of_version
from waterclock.temporal import FrameStatistics
from waterclock.temporal.version_statistics import LONG_KEY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Up to this number of rows, this process counts the keys in milliseconds; beyond it Spark does.
_MAX_ROWS_HERE = 2_000_000
_MAX_CACHED = 512
_OF_KEY = "_waterclock_of_key"
_cache: OrderedDict[tuple[str, int], FrameStatistics] = OrderedDict()
_lock = threading.Lock()


def version_counts(spark: SparkSession, folder: str, version: int, keys: Sequence[str]) -> FrameStatistics | None:
    """Count the versions of each key as of a version of the table. Return None if the table's version is not readable.

    Cost: a read of the key columns; beyond two million rows a Spark job with one shuffle. The result is cached.
    """
    with _lock:
        known = _cache.get((folder, version))
    if known is not None:
        return known
    with open_table(folder) as newest:
        shown = (list(newest.files), newest.is_plain) if newest.version == version else None
    if shown is None:
        table = open_kept_version(folder, version)
        if table is None:
            return None
        shown = ([file.path for file in live_files(table)], is_plain(table))
    paths, is_as_written = shown
    grouped = _group_locally([entry_path(folder, path) for path in paths], keys) if is_as_written else None
    found = _counts_by_spark(spark, folder, version, keys) if grouped is None else _statistics_of(grouped)
    with _lock:
        _cache[folder, version] = found
        while len(_cache) > _MAX_CACHED:
            _cache.popitem(last=False)
    return found


def _group_locally(paths: Sequence[Path], keys: Sequence[str]) -> pa.Table | None:
    """Group by key in this process, by Arrow. Return None for too many rows, or for types that Arrow cannot group."""
    files = [pq.ParquetFile(arrow_source(path)) for path in paths]
    if sum(file.metadata.num_rows for file in files) > _MAX_ROWS_HERE:
        return None
    parts = [file.read(columns=[*keys, EFFECTIVE]) for file in files]
    if not parts:
        return pa.table({"count_all": pa.array([], pa.int64())})
    try:
        rows = pa.concat_tables(parts, promote_options="permissive").select([*keys, EFFECTIVE])
        numbers = [str(number) for number in range(len(keys))]  # a key may have the name of an aggregate
        grouped = rows.rename_columns([*numbers, EFFECTIVE]).group_by(numbers)
        return grouped.aggregate([([], "count_all"), (EFFECTIVE, "min"), (EFFECTIVE, "max")])
    except pa.ArrowNotImplementedError:
        return None


def _statistics_of(by_key: pa.Table) -> FrameStatistics:
    counts = by_key["count_all"]
    if not len(counts):
        return FrameStatistics(0, 0, 0, 0)
    versions, most = pc.sum(counts).as_py(), pc.max(counts).as_py()
    first, last = pc.min(by_key[f"{EFFECTIVE}_min"]), pc.max(by_key[f"{EFFECTIVE}_max"])
    starts = (each.cast(pa.timestamp("us", "UTC")).value for each in (first, last))
    return FrameStatistics(versions, len(counts), most, pc.sum(pc.greater(counts, LONG_KEY)).as_py(), *starts)


def _counts_by_spark(spark: SparkSession, folder: str, version: int, keys: Sequence[str]) -> FrameStatistics:
    micros = f"unix_micros({EFFECTIVE})"
    by_key = frame_of_version(spark, folder, version).groupBy(*map(quote_name, keys))
    counted = by_key.agg(F.expr(f"struct(count(*) AS n, min({micros}) AS low, max({micros}) AS high) AS {_OF_KEY}"))
    numbers = counted.select(f"{_OF_KEY}.*").selectExpr(
        "sum(n)", "count(*)", "max(n)", f"count_if(n > {LONG_KEY})", "min(low)", "max(high)"
    )
    row = numbers.first() or (0, 0, 0, 0, None, None)
    return FrameStatistics(*(int(value or 0) for value in row[:4]), *row[4:])
