"""What a KEY says of rows that share it: which of them stays, and how far back the key may not have been. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.timelabel.duration import Duration


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """A column that says which row of a key is the last; `is_descending`: the one with its least value."""

    column: str
    is_descending: bool = False

    def __str__(self) -> str:
        return f"{self.column} DESC" if self.is_descending else self.column


@dataclass(frozen=True, slots=True)
class KeyStays:
    """Which row of a key stays: the last by `order`, none where that is empty and there are several.

    `past`: how far before a window's end the table's own earlier labels must not have held the key; None: not asked.
    """

    order: tuple[KeyOrder, ...] = ()
    past: Duration | None = None

    def __str__(self) -> str:
        past = f"PAST {self.past}" if self.past else ""
        order = f"ORDER BY {', '.join(map(str, self.order))}" if self.order else ""
        return " ".join(part for part in (past, order) if part)
