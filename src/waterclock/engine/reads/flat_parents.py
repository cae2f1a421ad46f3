"""Reads the parents of a FLAT and joins them to its rows.

A join by time needs every version of each parent, and may shuffle and sort all of them. The facts of a window contain
few keys of a large parent: all other keys are filtered out when the parent is scanned. The number of versions per key
decides how a parent is joined.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

from waterclock.engine.reads.flat_join import flat_frame
from waterclock.engine.reads.pin import PinnedRead
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Flat, Read
from waterclock.flow.enums import Mode
from waterclock.spark_sql import quote_name
from waterclock.storage.folds.version_counts import version_counts
from waterclock.storage.log.open_tables import live_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.temporal import FrameStatistics

# the maximum number of rows to broadcast
_MOST_ROWS = 1_000_000
# a parent with fewer bytes is not filtered, since joining all of it is faster
LEAST_BYTES = 8 * 1024 * 1024


def flat_frames(
    work: RunContext,
    spark: SparkSession,
    flats: Collection[Flat],
    reads: Sequence[PinnedRead],
    frames: Mapping[Read, DataFrame],
    counted: Callable[[DataFrame, Mapping[str, str]], DataFrame] | None = None,
) -> dict[Flat, DataFrame]:
    """Build the FLATs of a batch from its inputs.

    `counted` is called with the rows of each FLAT and its marker columns for missing parents (see `flat_frame`). It
    counts them and returns the rows without these columns. Cost: for each parent joined by time, a read of its keys,
    once per version (see `version_counts`); or a broadcast of the requested keys. No other job.
    """
    few = {pinned.read for pinned in reads if _has_few_rows(work, pinned)}
    made = {}
    for flat in flats:
        filtered = _narrow_parents(work, flat, frames) if flat.read in few else {}
        numbers = dict(
            _count_versions(
                work,
                spark,
                [each for each in reads if each.read in flat.included_reads[1:] and each.read not in filtered],
            )
        )
        alone: dict[str, str] | None = {} if counted else None
        rows = flat_frame(work.flow, flat, ChainMap(filtered, dict(frames)), numbers, alone)
        made[flat] = counted(rows, alone) if counted and alone else rows
    return made


def _has_few_rows(work: RunContext, pinned: PinnedRead) -> bool:
    """Return whether a read has few rows, by its slices' counts.

    Return False if the slices contain rows that the read leaves out.
    """
    table = work.flow.tables[pinned.read.table]
    is_slices = table.is_partitioned or table.mode is Mode.APPEND
    return is_slices and sum(piece.rows for piece in pinned.slices) <= _MOST_ROWS


def _narrow_parents(work: RunContext, flat: Flat, frames: Mapping[Read, DataFrame]) -> dict[Read, DataFrame]:
    """Filter large parents to the rows that are referenced. Small parents are not in the result."""
    filtered: dict[Read, DataFrame] = {}
    asked: dict[Read, list[DataFrame]] = {}
    for each in _list_ancestors(flat):
        keys = work.flow.tables[each.read.table].keys
        if each.read in asked and live_bytes(work.lake.folder(each.read.table)) >= LEAST_BYTES:
            wanted = reduce(lambda left, right: left.unionByName(right), asked[each.read]).distinct()
            same = " AND ".join(f"{quote_name(name)} = _waterclock_key{at}" for at, name in enumerate(keys))
            filtered[each.read] = frames[each.read].join(F.broadcast(wanted), F.expr(same), "left_semi")
        rows = filtered.get(each.read, frames[each.read])
        for join in each.joins:
            places = map(work.flow.tables[join.parent.read.table].keys.index, join.parent_columns)
            named = (
                f"{quote_name(name)} AS _waterclock_key{at}" for name, at in zip(join.columns, places, strict=True)
            )
            asked.setdefault(join.parent.read, []).append(rows.selectExpr(*named))
    return filtered


def _count_versions(
    work: RunContext, spark: SparkSession, reads: Sequence[PinnedRead]
) -> Iterator[tuple[Read, FrameStatistics]]:
    """Yield the numbers of versions per key of each TEMPORAL parent that is read from a Delta version."""
    for pinned in reads:
        table = work.flow.tables[pinned.read.table]
        if table.temporal is not None and pinned.slices and not pinned.steps:
            folder, version = work.lake.folder(table.name), pinned.slices[0].version
            numbers = version_counts(spark, folder, version, table.keys)
            if numbers is not None:
                yield pinned.read, numbers


def _list_ancestors(flat: Flat) -> list[Flat]:
    """Return a FLAT and all its ancestors, each table once, after all tables that refer to it."""
    depths: dict[Read, tuple[int, Flat]] = {}

    def note(each: Flat, depth: int) -> None:
        if depths.get(each.read, (-1, each))[0] < depth:
            depths[each.read] = depth, each
        for join in each.joins:
            note(join.parent, depth + 1)

    note(flat, 0)
    return [each for _, each in sorted(depths.values(), key=lambda found: found[0])]
