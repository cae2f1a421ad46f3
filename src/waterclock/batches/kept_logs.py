"""How what a source keeps of its log for a collect stands, and of how much of that somebody is told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from waterclock.flow.changes import LOG_LIMIT
from waterclock.flow.choices import Batching
from waterclock.flow.declarations import Table

_GB = 10**9
_LIMIT = 10 * _GB


class Stands(StrEnum):
    """How what a source keeps for a collect stands: safe, soon to be lost, lost, or not there at all."""

    SAFE = "safe"
    LOSING = "losing"
    LOST = "lost"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Kept:
    """What a source keeps under a name: bytes of its log, all that it cannot let go of, and how many were not taken.

    `most`: it lets go of what is more than that, whether it was taken or not; None where it keeps whatever comes.
    """

    stands: Stands
    held: int = 0
    behind: int = 0
    most: int | None = None

    def noted(self, name: str) -> dict[str, Any]:
        """Return what the ledger keeps of it."""
        return {"name": name, "stands": self.stands.value, "held": self.held, "behind": self.behind, "most": self.most}


def kept_of(noted: Mapping[str, Any]) -> Kept:
    """Read what the ledger keeps."""
    return Kept(Stands(noted["stands"]), int(noted["held"]), int(noted["behind"]), noted["most"])


def is_followed(table: Table, connection: str | None = None) -> bool:
    """Tell whether a table is collected BY CHANGES, from a connection where one is named."""
    source = table.source
    if source is None or source.batching is not Batching.CHANGES:
        return False
    return connection is None or source.unit.connection == connection


def limit_of(table: Table | None, most: int | None) -> int:
    """Return of how many bytes that a source holds back somebody is told; unsaid, at most half of what it keeps."""
    said = None if table is None or table.source is None else table.source.unit.options.get(LOG_LIMIT)
    if said is not None:
        return int(float(str(said)) * _GB)
    return _LIMIT if most is None else min(_LIMIT, most // 2)
