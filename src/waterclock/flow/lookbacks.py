"""What says which past windows of a source changed, so that a LOOKBACK collects these alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tells(StrEnum):
    """How a kind of source tells which windows changed: by a column of its rows, or of itself."""

    BY_COLUMN = "by column"
    BY_ITSELF = "by itself"


@dataclass(frozen=True, slots=True)
class Changed:
    """LOOKBACK ... CHANGED: only past windows that changed are collected again.

    `column` holds when a row was changed last; None where the source tells of itself.
    """

    column: str | None = None

    def __str__(self) -> str:
        return f"CHANGED BY {self.column}" if self.column else "CHANGED"
