"""Replaces all rows of given keys: writes the new rows, and copies affected files without the old ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.faults import fault
from waterclock.files.filesystem import arrow_source, entry_path
from waterclock.spark_sql import quote_name
from waterclock.storage.commit.pointers import MergeStart, commit_state
from waterclock.storage.commit.rebuild import try_whole_state
from waterclock.storage.folds.drop_rows import copy_without_rows
from waterclock.storage.folds.write_state import (
    FILE,
    MOST_PLACES,
    PLACE,
    add_row_positions,
    is_small,
    may_copy,
    may_rewrite_files,
)
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.live_files import LiveFile, relative_path
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.read import frame_of_files
from waterclock.storage.slices.row_order import sort_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


# if more than this share of the rows is replaced, recomputing the whole table is cheaper: replacing takes 0.4 of its
# time at 10 % of the rows, and 1.2 at 50 %
_WHOLE_FROM = 0.35
_ROWS = "_waterclock_rows"

# returns all new rows of some keys, or of all keys
Make = Callable[["DataFrame | None"], "DataFrame"]


def swap_rows(
    spark: SparkSession, folder: str, make: Make, keys: DataFrame, identity: Identity, merge_start: MergeStart
) -> int | None:
    """Replace all rows of `keys` in the table by the rows that `make` returns for them. Return the version.

    Return None if another commit came since the table was read, or if Spark's name for a file is not in the log. Cost:
    a write of the new rows. For a small table, one job also writes the rows that stay. For a bigger one, the keys are
    scanned, a footer of each file is read, and the files with these keys are copied. This process copies them. Spark
    does it if `may_copy` is false, if rows are sorted, or if there are too many positions to keep in memory. If more
    than a third of the rows would be replaced, the whole table is recomputed. Raises ClaimKilledError if the claim was
    killed first.
    """
    if is_small(merge_start) or not may_rewrite_files(merge_start):
        state = _read_remaining_rows(spark, folder, keys, merge_start, merge_start.live).unionByName(make(keys))
        return try_whole_state(folder, identity, state, base=merge_start.base, sort_by=merge_start.sort_by)
    touched = _find_files_of_keys(spark, folder, keys, merge_start)
    old = [file for file in merge_start.live if file.path in touched]
    if len(old) < len(touched):
        return None  # Spark's name for a file is not in the log
    if sum(each.rows for each in touched.values()) >= _WHOLE_FROM * _count_rows(folder, merge_start):
        return try_whole_state(folder, identity, make(None), base=merge_start.base, sort_by=merge_start.sort_by)
    path = f"state/c={identity.claim}/v={merge_start.base}"
    fault("merge")
    places = {file: each.places for file, each in touched.items() if each.places is not None}
    # a copy of several files in one would not be in order as a whole
    if not merge_start.sort_by and len(places) == len(touched) and may_copy(spark, folder, old):
        make(keys).write.mode("overwrite").parquet(str(entry_path(folder, path)))
        copy_without_rows(entry_path(folder), places, path)
    else:
        state = _read_remaining_rows(spark, folder, keys, merge_start, old).unionByName(make(keys))
        sort_rows(state, merge_start.sort_by).write.mode("overwrite").parquet(str(entry_path(folder, path)))
    return commit_state(folder, identity, path, base=merge_start.base, instead_of=old)


def _read_remaining_rows(
    spark: SparkSession, folder: str, keys: DataFrame, merge_start: MergeStart, files: Sequence[LiveFile]
) -> DataFrame:
    """Return the rows of `files` whose keys are not among `keys`."""
    rows = frame_of_files(spark, folder, files, merge_start.schema)
    return rows.join(keys, keys.columns, "left_anti").select(*map(quote_name, fields_of(merge_start.schema)))


def _count_rows(folder: str, merge_start: MergeStart) -> int:
    return sum(pq.read_metadata(arrow_source(entry_path(folder, file.path))).num_rows for file in merge_start.live)


@dataclass(frozen=True, slots=True)
class _RowsToReplace:
    """The rows to replace in a file: their number and their positions.

    The positions are None if there are too many for this process.
    """

    rows: int
    places: pa.Array | None


def _find_files_of_keys(
    spark: SparkSession, folder: str, keys: DataFrame, merge_start: MergeStart
) -> dict[str, _RowsToReplace]:
    """Return by path the files with rows of these keys. This process fetches at most `MOST_PLACES` row positions."""
    table_rows = frame_of_files(spark, folder, merge_start.live, merge_start.schema)
    most = MOST_PLACES // max(len(merge_start.live), 1)
    found = (
        add_row_positions(table_rows)
        .join(keys, keys.columns, "left_semi")
        .groupBy(FILE)
        .agg(F.expr(f"count(*) AS {_ROWS}"), F.expr(f"if(count(*) <= {most}, collect_list({PLACE}), NULL) AS {PLACE}"))
        .toArrow()
    )
    rows = found[_ROWS].to_pylist()
    places = (each.values if each.is_valid else None for each in found[PLACE])
    return {
        relative_path(uri, folder): _RowsToReplace(rows[at], where)
        for at, (uri, where) in enumerate(zip(found[FILE].to_pylist(), places, strict=True))
    }
