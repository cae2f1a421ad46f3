"""CLOSE WHEN: the condition under which a window is complete, as text and as a Spark expression."""

from __future__ import annotations

from dataclasses import dataclass

START, END = "wc_start", "wc_end"
"""The columns with the window's start and end in the condition that Spark evaluates."""


@dataclass(frozen=True, slots=True)
class Least:
    """A call `watermark(column, part, ...)` in CLOSE WHEN: the lowest of the greatest values per group of rows.

    Rows are grouped by the columns `parts`. The value is computed again at each boundary and may become lower, unlike
    the WATERMARK of a table. `text` is the call as written; `name` replaces it in the expression for Spark.
    """

    name: str
    table: str
    column: str
    parts: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Closes:
    """A CLOSE WHEN clause: a window reads its UNTIL tables up to the first boundary at which the condition is true.

    `text` is the condition as written, `expression` its SQL for Spark, `marks` the calls of watermark() in it.
    `asks_rows`: the condition contains aggregates of rows. `is_by_hand`: it contains `closed_by_hand()`, which is true
    once a user closes the window. `is_asked`: it contains more than `closed_by_hand()`, so a query must evaluate it.
    """

    text: str
    expression: str
    marks: tuple[Least, ...] = ()
    asks_rows: bool = False
    is_by_hand: bool = False
    is_asked: bool = True
