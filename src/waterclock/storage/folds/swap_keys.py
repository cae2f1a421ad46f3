"""Replaces all rows of given keys: writes the new rows, and copies affected files without the old ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.faults import fault
from waterclock.spark_sql import quoted
from waterclock.storage.commit.pointers import MergeLook, commit_state
from waterclock.storage.commit.rebuild import try_whole_state
from waterclock.storage.folds.drop_rows import can_thin, thin
from waterclock.storage.folds.write_state import (
    FILE,
    MOST_BYTES_COPIED,
    PLACE,
    is_small,
    may_rewrite_files,
    with_places,
)
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.live_files import relative_path
from waterclock.storage.slices.read import frame_of_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


# from this share of its versions on, it costs less to make the whole table again: 0.4 of that at 10 %, 1.2 at 50 %
_WHOLE_FROM = 0.35

# gives all rows that some keys have from now on, or all there are
Make = Callable[["DataFrame | None"], "DataFrame"]


def swap_rows(
    spark: SparkSession, folder: str, make: Make, keys: DataFrame, identity: Identity, look: MergeLook
) -> int | None:
    """Put all rows that `keys` have from now on in the place of those that they have in the table.

    Gives the version; None where another commit came since the look. Cost: a write of the new rows; of a small table
    one job writes those that stay as well, of a bigger one its keys are scanned, and its files copied. Where more
    than a third of its rows would go, all are made again.

    Raises  Killed where the claim was killed first
    """
    there = frame_of_files(spark, folder, [file.path for file in look.live], look.schema)
    if is_small(look) or not _may_copy(folder, look):
        new = make(keys)
        stay = there.join(keys, keys.columns, "left_anti").select(*map(quoted, new.columns))
        return try_whole_state(folder, identity, stay.unionByName(new), base=look.base)
    gone = _places(there, keys, folder)
    old = [file for file in look.live if file.path in gone]
    if len(old) < len(gone):
        return None  # Spark calls a file otherwise than the log does
    if sum(map(len, gone.values())) >= _WHOLE_FROM * _rows(folder, look):
        return try_whole_state(folder, identity, make(None), base=look.base)
    path = f"state/c={identity.claim}/v={look.base}"
    fault("merge")
    make(keys).write.mode("overwrite").parquet(str(Path(folder, path)))
    thin(Path(folder), gone, path)
    return commit_state(folder, identity, path, base=look.base, instead_of=old)


def _rows(folder: str, look: MergeLook) -> int:
    return sum(pq.read_metadata(Path(folder, file.path)).num_rows for file in look.live)


def _may_copy(folder: str, look: MergeLook) -> bool:
    size = sum(file.size for file in look.live)
    is_light = may_rewrite_files(look) and size <= MOST_BYTES_COPIED
    return is_light and can_thin(Path(folder), [file.path for file in look.live])


def _places(there: DataFrame, keys: DataFrame, folder: str) -> dict[str, pa.Array]:
    """Find by file where the rows of these keys lie."""
    met = with_places(there).join(keys, keys.columns, "left_semi")
    found = met.groupBy(FILE).agg(F.collect_list(PLACE).alias(PLACE)).toArrow()
    return {relative_path(uri, folder): found[PLACE][at].values for at, uri in enumerate(found[FILE].to_pylist())}
