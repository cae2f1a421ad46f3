"""Which way of joining suits a parent of these numbers? Decided from numbers alone: no job is started to choose."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from waterclock.temporal.numbers import Numbers


class Plan(Enum):
    """The ways to find the version in effect."""

    BROADCAST = "broadcast hash join with a range"
    HASH = "shuffled hash join with a range"
    SLICES = "hash join on slices of time"
    SORTED_SLICES = "sort-merge join on slices of time"
    WINDOW = "union and window"


@dataclass(frozen=True, slots=True)
class Limits:
    """Where one plan gives way to the next; sizes in bytes of memory, as estimated from column types."""

    broadcast: int = 10 * 2**20
    build: int = 128 * 2**20  # of a task: a shuffled hash join cannot spill what it builds
    few_versions: int = 64  # of any key: each is compared with every row of the key


LIMITS = Limits()
# what a long key takes of a broadcast: its columns, three numbers, and the hash table around them
_BYTES_OF_A_LONG_KEY = 96


def choose(numbers: Numbers | None, *, row_bytes: int, partitions: int, limits: Limits = LIMITS) -> Plan:
    """Give the plan for a parent with these numbers, whose pruned rows take `row_bytes` each."""
    if numbers is None:
        return Plan.WINDOW
    size = numbers.versions * row_bytes
    fits_task = size <= limits.build * partitions
    if numbers.most_versions <= limits.few_versions and size <= limits.broadcast:
        return Plan.BROADCAST
    if numbers.most_versions <= limits.few_versions and fits_task:
        return Plan.HASH
    if numbers.long_keys * _BYTES_OF_A_LONG_KEY <= limits.broadcast:
        return Plan.SLICES if fits_task else Plan.SORTED_SLICES
    return Plan.WINDOW
