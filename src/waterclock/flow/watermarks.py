"""Computes watermarks, the time up to which a table's rows are complete. The table `<table>_mark` stores them.

W(L) = max( W(L-1), min( e(L), least over parts of max(at) - d ) )

W(L) is the watermark after the window L, e(L) the window's end, d the lateness; max(at) is over all slices up to L. A
part is a combination of values of the PER columns. The watermark never falls, and never passes the window's end, even
if the clock of a part is ahead. A part without rows in `silent_after` slices is ignored until it has rows again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from waterclock.spark_sql import quote_name
from waterclock.timelabel.cadence import Cadence

SILENT_AFTER = 3
"""The number of consecutive windows without rows after which a part is ignored."""

MARK = "_mark"
"""The suffix of the name of the companion table that stores a table's watermark."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """A WATERMARK clause: rows are complete up to `lateness` before the newest time in `column`.

    With `per`, the newest time is determined for each combination of values of these columns, and the lowest one
    counts.
    """

    column: str
    lateness: timedelta
    per: tuple[str, ...] = ()
    silent_after: int = SILENT_AFTER


def find_earliest_advance(cadence: Cadence, end: datetime, watermark: Watermark) -> datetime:
    """Return the end of the first window whose rows can move the watermark past `end`."""
    return cadence.next(cadence.floor(end + watermark.lateness))


def mark_of(table: str) -> str:
    """Return the name of the companion table that stores the watermark of `table`."""
    return f"{table}{MARK}"


def query_of(table: str, watermark: Watermark) -> str:
    """Return the query that computes the watermark of `table`, from the window's rows and the previous watermark."""
    at, of, own = quote_name(watermark.column), _table(table), _table(mark_of(table))
    columns = ", ".join(map(quote_name, watermark.per))
    part = f"to_json(struct({columns}))" if watermark.per else "''"
    return f"""\
WITH heard AS (
  SELECT {part} AS part, max({at}) AS newest FROM {of} WHERE {at} IS NOT NULL GROUP BY 1
), parts AS (
  SELECT part, max(newest) AS newest, min(quiet) AS quiet, max(watermark) AS watermark FROM (
    SELECT part, newest, 0 AS quiet, CAST(NULL AS TIMESTAMP) AS watermark FROM heard
    UNION ALL SELECT part, newest, quiet + 1, watermark FROM PREVIOUS({own})
  ) GROUP BY part
), reached AS (
  SELECT max(watermark) AS before, min(CASE WHEN quiet < {watermark.silent_after} THEN newest END)
    - INTERVAL {watermark.lateness // timedelta(seconds=1)} SECONDS AS newest FROM parts
)
SELECT part, parts.newest, quiet, greatest(before,
  CASE WHEN reached.newest IS NOT NULL THEN least(reached.newest, WINDOW_END()) END) AS watermark
FROM parts CROSS JOIN reached"""


def watermark_in(relation: str) -> str:
    """Return the SQL expression for the watermark in a `_mark` table; for an empty table, its value is the year 1."""
    return f"coalesce((SELECT max(watermark) FROM {relation}), TIMESTAMP '0001-01-01 00:00:00')"


REACHED, SLOWEST, SLOWEST_AT = "watermark", "slowest", "slowest_at"
"""The measures of a `_mark` table in the ledger: the watermark, the slowest part, and the newest time of that part."""
MEASURES = f"""\
max(watermark) AS {REACHED}, min(CASE WHEN quiet < {SILENT_AFTER} THEN newest END) AS {SLOWEST_AT},
  (min(CASE WHEN quiet < {SILENT_AFTER} THEN struct(newest, part) END)).part AS {SLOWEST}"""
"""The MEASURE clause of a `_mark` table."""

COLUMNS = "part STRING, newest TIMESTAMP, quiet INT, watermark TIMESTAMP"
"""The columns of a `_mark` table; the watermark is the same in all rows."""


def _table(name: str) -> str:
    return ".".join(map(quote_name, name.split(".")))
