"""CLOSE WHEN: the condition that closes a window's books, as text and as a Spark expression."""

from __future__ import annotations

from dataclasses import dataclass

START, END = "wc_start", "wc_end"
"""The names of the window's start and end in a condition that Spark evaluates."""


@dataclass(frozen=True, slots=True)
class Least:
    """A call `watermark(column, part, ...)` in a condition: the greatest value per group, and of these the lowest.

    Rows are grouped by the columns `parts`. The value is computed anew at each boundary and may be lower at a later
    one, unlike the WATERMARK of a table. `text` is the call as written; `name` replaces it in the expression for Spark.
    """

    name: str
    table: str
    column: str
    parts: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Closes:
    """CLOSE WHEN: a window reads its UNTIL tables up to the first boundary at which the condition is true.

    `text` is the condition as written, `expression` its form for Spark. `marks`: the watermarks in it. `asks_rows`: it
    contains aggregates of rows. `is_by_hand`: it contains `closed_by_hand()`, true once a user closes the window.
    `is_asked`: it contains anything else, which must be evaluated.
    """

    text: str
    expression: str
    marks: tuple[Least, ...] = ()
    asks_rows: bool = False
    is_by_hand: bool = False
    is_asked: bool = True
