"""Stores how far the done batches of a table are behind its log, as its newest tick found it: a small file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waterclock.files.filesystem import entry_path, make_folder, read_text, replace_text

MOST_PARTITIONS = 20
"""The number of partitions that are stored: those with the largest lag."""
_NAME = "_waterclock_log"  # Delta ignores names that begin with an underscore


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a partition of a log, in offsets.

    The done batches of the table have read up to `committed`, and the log ended at `end`. `newest` is the time of the
    partition's newest record, if the source reports it.
    """

    partition: str
    committed: int
    end: int
    newest: datetime | None = None

    @property
    def offsets(self) -> int:
        """The number of offsets that no done batch has read."""
        return self.end - self.committed


@dataclass(frozen=True, slots=True)
class LogLag:
    """The lag of a log: `offsets` in all `partitions`, of which `behind` have any, and the partitions with the most."""

    offsets: int
    partitions: int
    behind: int
    worst: tuple[PartitionLag, ...] = ()


def summarize_lag(parts: Mapping[str, tuple[Any, Any]]) -> LogLag | None:
    """Return the lag of partitions, which are mapped to the end of the done batches and the end of the log.

    None for a log whose positions are no numbers. Pure.
    """
    found = []
    for partition, (low, high) in parts.items():
        if not isinstance(low, int) or not isinstance(high, int):
            return None
        found.append(PartitionLag(partition, low, high))
    found.sort(key=lambda each: (-each.offsets, len(each.partition), each.partition))
    behind = sum(each.offsets > 0 for each in found)
    return LogLag(sum(each.offsets for each in found), len(found), behind, tuple(found[:MOST_PARTITIONS]))


def record_log_lag(folder: str, lag: LogLag) -> None:
    """Record the lag that a tick found. Cost: a small file."""
    worst = {
        each.partition: [each.committed, each.end, None if each.newest is None else each.newest.isoformat()]
        for each in lag.worst
    }
    make_folder(entry_path(folder))
    text = {"offsets": lag.offsets, "partitions": lag.partitions, "behind": lag.behind, "worst": worst}
    replace_text(entry_path(folder, _NAME), json.dumps(text))


def read_log_lag(folder: str) -> LogLag | None:
    """Return the lag that the newest tick recorded; None for a table without one. Cost: a small file."""
    try:
        found = json.loads(read_text(entry_path(folder, _NAME)))
        worst = tuple(_parse_partition(str(name), *each) for name, each in found["worst"].items())
        return LogLag(int(found["offsets"]), int(found["partitions"]), int(found["behind"]), worst)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):  # the next change writes it again
        return None


def _parse_partition(partition: str, committed: int, end: int, newest: str | None) -> PartitionLag:
    time = None if newest is None else datetime.fromisoformat(newest)
    if time is not None and time.tzinfo is None:
        raise ValueError(f"{newest} has no time zone")
    return PartitionLag(partition, int(committed), int(end), time)
