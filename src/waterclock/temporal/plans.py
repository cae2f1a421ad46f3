"""Chooses how to join a parent, from its numbers alone: the choice starts no job."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from waterclock.temporal.measure import Numbers


class TemporalPlan(Enum):
    """The methods to find the version in effect."""

    BROADCAST = "broadcast hash join with a range"
    HASH = "shuffled hash join with a range"
    BUCKETS = "hash join on equal buckets of time"
    SLICES = "hash join on slices of time"
    SORTED_SLICES = "sort-merge join on slices of time"
    WINDOW = "union and window"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits at which the next plan takes over; sizes in bytes of memory, as estimated from column types.

    `broadcast` and `few_versions` are the sizes at which two plans took the same CPU, by `bench/temporal.py
    --calibrate` (the table is in docs/performance.md). A broadcast and a shuffled hash join were equal at 50,000
    versions of 80 bytes with eight versions a key, and earlier with more versions a key. A hash join and one on slices
    were equal at keys of 85 versions, the longest of them some 115. From `bucketed` versions a key on average,
    duplicate versions cost less than the comparisons that they save: 0.87 of the hash join at 20 versions. `build` and
    `cuts` guard memory, and were not measured.
    """

    broadcast: int = 2 * 2**20
    few_versions: int = 112  # of any key: at worst each is compared with every row of the key
    bucketed: int = 16  # of a key on average
    build: int = 128 * 2**20  # of a task: a shuffled hash join cannot spill what it builds
    cuts: int = 10 * 2**20  # of slices, broadcast


LIMITS = Limits()
# the share of a long key in a broadcast: its columns, three numbers, and the hash table around them
_BYTES_OF_A_LONG_KEY = 96


def choose(numbers: Numbers | None, *, row_bytes: int, partitions: int, limits: Limits = LIMITS) -> TemporalPlan:
    """Return the plan for a parent with these numbers, whose pruned rows take `row_bytes` each."""
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
