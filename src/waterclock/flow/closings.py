"""CLOSE WHEN: the condition that closes a window's books, as it was written and as Spark evaluates it."""

from __future__ import annotations

from dataclasses import dataclass

START, END = "wc_start", "wc_end"
"""The names of the window's start and end in a condition that Spark evaluates."""


@dataclass(frozen=True, slots=True)
class Least:
    """A `watermark(column, part, ...)`: the greatest value of the column, in the part that is furthest behind.

    It is computed from rows at one boundary, and may fall at another; the WATERMARK of a table (`watermarks`) never
    does. `name` replaces it in the condition for Spark; `text` is the original text.
    """

    name: str
    table: str
    column: str
    parts: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Closes:
    """CLOSE WHEN: a window reads its UNTIL tables up to the first boundary at which the condition is true.

    `text` is the condition as written, `expression` the one for Spark. `asks_rows`: it contains aggregates of rows.
    `is_by_hand`: a user may close a window. `is_asked`: the condition has other parts than that.
    """

    text: str
    expression: str
    marks: tuple[Least, ...] = ()
    asks_rows: bool = False
    is_by_hand: bool = False
    is_asked: bool = True
