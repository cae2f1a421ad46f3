"""The options of KEY for rows with the same key: ORDER BY, which selects one row, and PAST, which checks the past."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.timelabel.duration import Duration


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """A column that orders rows with the same key. `is_descending`: the row with the lowest value is the last."""

    column: str
    is_descending: bool = False

    def __str__(self) -> str:
        return f"{self.column} DESC" if self.is_descending else self.column


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """The rule for rows with the same key: only the last by `order` passes; without an order, none of them passes.

    `past`: the time before a window's end in which earlier labels of the table must not contain the key; None if they
    are not checked.
    """

    order: tuple[KeyOrder, ...] = ()
    past: Duration | None = None

    def __str__(self) -> str:
        past = f"PAST {self.past}" if self.past else ""
        order = f"ORDER BY {', '.join(map(str, self.order))}" if self.order else ""
        return " ".join(part for part in (past, order) if part)
