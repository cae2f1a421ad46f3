"""LOOKBACK ... CHANGED: the source reports which past windows changed, so that only these are collected again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ChangeReporting(StrEnum):
    """The way in which a type of source reports changed windows: by a time column of its rows, or without one."""

    BY_COLUMN = "by column"
    BY_ITSELF = "by itself"


@dataclass(frozen=True, slots=True)
class Changed:
    """LOOKBACK … CHANGED: of the earlier windows, only those with changed rows are read again.

    `column` contains the time of each row's last change; None if the source itself reports which windows changed.
    """

    column: str | None = None

    def __str__(self) -> str:
        return f"CHANGED BY {self.column}" if self.column else "CHANGED"
