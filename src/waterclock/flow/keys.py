"""The options of KEY for rows with the same key: which row passes, and how far back the key must not occur."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.timelabel.duration import Duration


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """A column by which rows with the same key are ordered; if `is_descending`, the lowest value is last."""

    column: str
    is_descending: bool = False

    def __str__(self) -> str:
        return f"{self.column} DESC" if self.is_descending else self.column


@dataclass(frozen=True, slots=True)
class KeyStays:
    """The rule for rows with the same key: only the last by `order` passes; without an order, none of them passes.

    `past`: the time before a window's end in which earlier labels of the table must not have the key; None: earlier
    labels are not checked.
    """

    order: tuple[KeyOrder, ...] = ()
    past: Duration | None = None

    def __str__(self) -> str:
        past = f"PAST {self.past}" if self.past else ""
        order = f"ORDER BY {', '.join(map(str, self.order))}" if self.order else ""
        return " ".join(part for part in (past, order) if part)
