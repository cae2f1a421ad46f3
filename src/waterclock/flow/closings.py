"""When the books of a window are closed: the condition of CLOSE WHEN, as it was written and as Spark is asked it."""

from __future__ import annotations

from dataclasses import dataclass

START, END = "wc_start", "wc_end"
"""The names by which a condition has its window's start and end when Spark is asked."""


@dataclass(frozen=True, slots=True)
class Least:
    """A `watermark(column, part, ...)`: the greatest value of the column, of the part that is furthest behind.

    It is asked of rows at one boundary, and may fall at another; the WATERMARK of a table (`watermarks`) never does.
    `name` stands in its place when Spark is asked; `text` is how it was written.
    """

    name: str
    table: str
    column: str
    parts: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Closes:
    """CLOSE WHEN: a window reads its UNTIL tables up to the first boundary at which this holds.

    `text` is the condition as written, `expression` what Spark is asked. `asks_rows`: it holds aggregates of rows.
    `is_by_hand`: somebody may close a window. `is_asked`: there is more in it than that.
    """

    text: str
    expression: str
    marks: tuple[Least, ...] = ()
    asks_rows: bool = False
    is_by_hand: bool = False
    is_asked: bool = True
