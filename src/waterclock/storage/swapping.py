"""How do all rows of some keys give way to new ones? New files come, and copies of the old ones without those rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.faults import fault
from waterclock.storage.commit import MergeLook, commit_state
from waterclock.storage.identity import Identity
from waterclock.storage.live import relative_path
from waterclock.storage.read import frame_of_files
from waterclock.storage.remaking import try_whole_state
from waterclock.storage.sql import quoted
from waterclock.storage.state import FILE, MOST_BYTES_COPIED, PLACE, is_small, may_rewrite_files, with_places
from waterclock.storage.thinning import can_thin, thin

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def swap_rows(
    spark: SparkSession, folder: str, new: DataFrame, keys: DataFrame, identity: Identity, look: MergeLook
) -> int | None:
    """Put `new`, all rows that `keys` have from now on, in the place of those that they have in the table.

    Gives the version; None where another commit came since the look. Cost: a write of the new rows; of a small table
    one job writes those that stay as well, of a bigger one its keys are scanned, and its files copied.

    Raises  Killed where the claim was killed first
    """
    there = frame_of_files(spark, folder, [file.path for file in look.live], look.schema)
    if is_small(look) or not _may_copy(folder, look):
        stay = there.join(keys, keys.columns, "left_anti").select(*map(quoted, new.columns))
        return try_whole_state(folder, identity, stay.unionByName(new), base=look.base)
    gone = _places(there, keys, folder)
    old = [file for file in look.live if file.path in gone]
    if len(old) < len(gone):
        return None  # Spark calls a file otherwise than the log does
    path = f"state/c={identity.claim}/v={look.base}"
    fault("merge")
    new.write.mode("overwrite").parquet(str(Path(folder, path)))
    thin(Path(folder), gone, path)
    return commit_state(folder, identity, path, base=look.base, instead_of=old)


def _may_copy(folder: str, look: MergeLook) -> bool:
    size = sum(file.size for file in look.live)
    is_light = may_rewrite_files(look) and size <= MOST_BYTES_COPIED
    return is_light and can_thin(Path(folder), [file.path for file in look.live])


def _places(there: DataFrame, keys: DataFrame, folder: str) -> dict[str, pa.Array]:
    """Find by file where the rows of these keys lie."""
    met = with_places(there).join(keys, keys.columns, "left_semi")
    found = met.groupBy(FILE).agg(F.collect_list(PLACE).alias(PLACE)).toArrow()
    return {relative_path(uri, folder): found[PLACE][at].values for at, uri in enumerate(found[FILE].to_pylist())}
