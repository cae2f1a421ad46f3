"""Chooses the plan of a join with a temporal parent from its statistics, without a Spark job."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from waterclock.temporal.version_statistics import FrameStatistics


class TemporalPlan(Enum):
    """The join plans that find the version in effect at a time."""

    BROADCAST = "broadcast hash join with a range"
    HASH = "shuffled hash join with a range"
    BUCKETS = "hash join on equal buckets of time"
    SLICES = "hash join on slices of time"
    SORTED_SLICES = "sort-merge join on slices of time"
    WINDOW = "union and window"


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """The limits between join plans. Sizes are bytes of memory, estimated from column types.

    At `broadcast` and `few_versions` two plans took the same CPU time, measured by `bench/temporal.py --calibrate` (the
    table is in docs/performance.md). A broadcast and a shuffled hash join took the same time at 50,000 versions of 80
    bytes with eight versions a key, and earlier with more versions a key. A hash join and a join on slices took the
    same time at keys of 85 versions on average, 115 at most. From `bucketed` versions a key on average, repeating
    versions in buckets costs less than the comparisons that it saves: 0.87 of the hash join at 20 versions. `build` and
    `cuts` protect memory, and were not measured.
    """

    broadcast: int = 2 * 2**20
    few_versions: int = 112  # of any key: at worst each is compared with every row of the key
    bucketed: int = 16  # of a key on average
    build: int = 128 * 2**20  # of a task: a shuffled hash join cannot spill its hash table
    cuts: int = 10 * 2**20  # of the broadcast table of slices


LIMITS = PlanLimits()
# the size of a long key in the broadcast table of slices: its columns, three numbers, and the hash table around them
_BYTES_OF_A_LONG_KEY = 96


def choose(
    numbers: FrameStatistics | None, *, row_bytes: int, partitions: int, limits: PlanLimits = LIMITS
) -> TemporalPlan:
    """Return the join plan for a parent with these statistics.

    Args:
        numbers: The parent's statistics, None if unknown.
        row_bytes: The size of a row of the parent with the needed columns only.
        partitions: The number of shuffle partitions.
        limits: The limits between the plans.
    """
    if numbers is None:
        return TemporalPlan.WINDOW
    size = numbers.versions * row_bytes
    fits_task = size <= limits.build * partitions
    if numbers.most_versions <= limits.few_versions and size <= limits.broadcast:
        return TemporalPlan.BROADCAST
    if numbers.most_versions <= limits.few_versions and fits_task:
        # a version is in two buckets on average
        is_bucketed = numbers.versions >= limits.bucketed * numbers.keys and 2 * size <= limits.build * partitions
        return TemporalPlan.BUCKETS if is_bucketed and numbers.first is not None else TemporalPlan.HASH
    if numbers.long_keys * _BYTES_OF_A_LONG_KEY <= limits.cuts:
        return TemporalPlan.SLICES if fits_task else TemporalPlan.SORTED_SLICES
    return TemporalPlan.WINDOW
