"""Chooses how to join a parent, by its numbers alone: no job is started to choose."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from waterclock.temporal.measure import Numbers


class Plan(Enum):
    """The ways to find the version in effect."""

    BROADCAST = "broadcast hash join with a range"
    HASH = "shuffled hash join with a range"
    BUCKETS = "hash join on equal buckets of time"
    SLICES = "hash join on slices of time"
    SORTED_SLICES = "sort-merge join on slices of time"
    WINDOW = "union and window"


@dataclass(frozen=True, slots=True)
class Limits:
    """Where one plan gives way to the next; sizes in bytes of memory, as estimated from column types.

    `broadcast` and `few_versions` are where two plans took the same CPU, by `bench/temporal.py --calibrate` (the table
    is in docs/performance.md): a broadcast and a shuffled hash join at 50,000 versions of 80 bytes where keys have
    eight, and earlier where they have more; a hash join and one on slices at keys of 85 versions, the longest of them
    some 115. From `bucketed` versions of a key on the average, versions that are there twice cost less than the
    comparisons that they save: 0.87 of the hash join at 20 versions. `build` and `cuts` guard memory, and were not
    measured.
    """

    broadcast: int = 2 * 2**20
    few_versions: int = 112  # of any key: at worst each is compared with every row of the key
    bucketed: int = 16  # of a key on the average
    build: int = 128 * 2**20  # of a task: a shuffled hash join cannot spill what it builds
    cuts: int = 10 * 2**20  # of slices, broadcast


LIMITS = Limits()
# what a long key takes of a broadcast: its columns, three numbers, and the hash table around them
_BYTES_OF_A_LONG_KEY = 96


def choose(numbers: Numbers | None, *, row_bytes: int, partitions: int, limits: Limits = LIMITS) -> Plan:
    """Return the plan for a parent with these numbers, whose pruned rows take `row_bytes` each."""
    if numbers is None:
        return Plan.WINDOW
    size = numbers.versions * row_bytes
    fits_task = size <= limits.build * partitions
    if numbers.most_versions <= limits.few_versions and size <= limits.broadcast:
        return Plan.BROADCAST
    if numbers.most_versions <= limits.few_versions and fits_task:
        # a version stands in two buckets on the average
        is_bucketed = numbers.versions >= limits.bucketed * numbers.keys and 2 * size <= limits.build * partitions
        return Plan.BUCKETS if is_bucketed and numbers.first is not None else Plan.HASH
    if numbers.long_keys * _BYTES_OF_A_LONG_KEY <= limits.cuts:
        return Plan.SLICES if fits_task else Plan.SORTED_SLICES
    return Plan.WINDOW
