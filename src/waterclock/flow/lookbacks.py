"""LOOKBACK ... CHANGED: how a source reports which past windows changed, so that only these are collected again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ChangeReporting(StrEnum):
    """How a type of source reports which windows changed: by a column of its rows, or without one."""

    BY_COLUMN = "by column"
    BY_ITSELF = "by itself"


@dataclass(frozen=True, slots=True)
class Changed:
    """The CHANGED option of LOOKBACK.

    `column` contains each row's last-modified time; None if the source itself reports which windows changed.
    """

    column: str | None = None

    def __str__(self) -> str:
        return f"CHANGED BY {self.column}" if self.column else "CHANGED"
