"""Declarations of a KEY about rows that share it: which one stays, and how far back the key must be new."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.timelabel.duration import Duration


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """A column that orders the rows of a key; `is_descending`: the row with its least value is the last."""

    column: str
    is_descending: bool = False

    def __str__(self) -> str:
        return f"{self.column} DESC" if self.is_descending else self.column


@dataclass(frozen=True, slots=True)
class KeyStays:
    """Which row of a key stays: the last by `order`. If that is empty, none of several rows stays.

    `past`: the time before a window's end in which the table's own earlier labels must not have the key; None:
    unchecked.
    """

    order: tuple[KeyOrder, ...] = ()
    past: Duration | None = None

    def __str__(self) -> str:
        past = f"PAST {self.past}" if self.past else ""
        order = f"ORDER BY {', '.join(map(str, self.order))}" if self.order else ""
        return " ".join(part for part in (past, order) if part)
