"""Defines how much log a source database retains for a collect, and the limit above which it is reported. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from waterclock.flow.changes import LOG_LIMIT
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Batching

_GB = 10**9
_LIMIT = 10 * _GB


class LogSafety(StrEnum):
    """Whether the log that a source retains for a collect is safe, about to be lost, lost, or missing."""

    SAFE = "safe"
    LOSING = "losing"
    LOST = "lost"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class RetainedLog:
    """The log that a source retains under a name.

    `held` is its size: bytes that the source cannot discard. `behind` bytes of them were not read yet.

    `most` is the limit in bytes above which the source discards log even if it was not read. None: no limit.
    """

    condition: LogSafety
    held: int = 0
    behind: int = 0
    most: int | None = None

    def to_entry(self, name: str) -> dict[str, Any]:
        """Return the entry for the log named `name` that the ledger stores."""
        return {
            "name": name,
            "stands": self.condition.value,
            "held": self.held,
            "behind": self.behind,
            "most": self.most,
        }


def parse_retained_log(noted: Mapping[str, Any]) -> RetainedLog:
    """Build a `RetainedLog` from the ledger's entry."""
    return RetainedLog(LogSafety(noted["stands"]), int(noted["held"]), int(noted["behind"]), noted["most"])


def is_followed(table: Table, connection: str | None = None) -> bool:
    """Return whether a table is collected BY CHANGES, optionally only from the given connection."""
    source = table.source
    if source is None or source.batching is not Batching.CHANGES:
        return False
    return connection is None or source.unit.connection == connection


def limit_of(table: Table | None, most: int | None) -> int:
    """Return the number of retained bytes above which a warning is due, for a source with the limit `most`.

    It is the declared number. Without one, it is 10 GB, or half of the source's limit if that is less.
    """
    declared = None if table is None or table.source is None else table.source.unit.options.get(LOG_LIMIT)
    if declared is not None:
        return int(float(str(declared)) * _GB)
    return _LIMIT if most is None else min(_LIMIT, most // 2)
