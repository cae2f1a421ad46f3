"""Watermarks: how far a table's rows have advanced in their own time, as a query over slices.

W(L) = max( W(L-1), min( e(L), least over parts of max(at) - d ) )

`max(at)` is over all slices up to L. The watermark never falls. It never passes the window's end e(L), however far
ahead a clock is. A part without rows in `silent_after` slices is ignored until it has rows again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from waterclock.spark_sql import quote_name
from waterclock.timelabel.cadence import Cadence

SILENT_AFTER = 3
"""The number of consecutive windows without rows after which a part is ignored. Rebuilds count the same labels."""

MARK = "_mark"
"""The suffix of the table that keeps a table's watermark."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """WATERMARK column lateness [PER (cols)]: rows arrive up to `lateness` behind the newest one, in each part."""

    column: str
    lateness: timedelta
    per: tuple[str, ...] = ()
    silent_after: int = SILENT_AFTER


def find_earliest_advance(cadence: Cadence, end: datetime, said: Watermark) -> datetime:
    """Return the end of the first window whose rows can move the watermark past `end`.

    Rows of a window are before its end, and the watermark is `lateness` behind the newest of them.
    """
    return cadence.next(cadence.floor(end + said.lateness))


def mark_of(table: str) -> str:
    """Return the name of the table that keeps the watermark of `table`."""
    return f"{table}{MARK}"


def query_of(table: str, said: Watermark) -> str:
    """Return the query that computes the mark of `table` from the previous one and the window's rows."""
    at, of, own = quote_name(said.column), _table(table), _table(mark_of(table))
    columns = ", ".join(map(quote_name, said.per))
    part = f"to_json(struct({columns}))" if said.per else "''"
    return f"""\
WITH heard AS (
  SELECT {part} AS part, max({at}) AS newest FROM {of} WHERE {at} IS NOT NULL GROUP BY 1
), parts AS (
  SELECT part, max(newest) AS newest, min(quiet) AS quiet, max(watermark) AS watermark FROM (
    SELECT part, newest, 0 AS quiet, CAST(NULL AS TIMESTAMP) AS watermark FROM heard
    UNION ALL SELECT part, newest, quiet + 1, watermark FROM PREVIOUS({own})
  ) GROUP BY part
), reached AS (
  SELECT max(watermark) AS before, min(CASE WHEN quiet < {said.silent_after} THEN newest END)
    - INTERVAL {said.lateness // timedelta(seconds=1)} SECONDS AS newest FROM parts
)
SELECT part, parts.newest, quiet, greatest(before,
  CASE WHEN reached.newest IS NOT NULL THEN least(reached.newest, WINDOW_END()) END) AS watermark
FROM parts CROSS JOIN reached"""


def watermark_in(relation: str) -> str:
    """Return an expression for the watermark in the mark `relation`, or for the earliest timestamp if there is none."""
    return f"coalesce((SELECT max(watermark) FROM {relation}), TIMESTAMP '0001-01-01 00:00:00')"


REACHED, SLOWEST, SLOWEST_AT = "watermark", "slowest", "slowest_at"
"""The names of a mark's measures in the ledger: the watermark, and the slowest part with its newest time."""
MEASURES = f"""\
max(watermark) AS {REACHED}, min(CASE WHEN quiet < {SILENT_AFTER} THEN newest END) AS {SLOWEST_AT},
  (min(CASE WHEN quiet < {SILENT_AFTER} THEN struct(newest, part) END)).part AS {SLOWEST}"""
"""The measures of each mark, taken in the pass that writes it."""

COLUMNS = "part STRING, newest TIMESTAMP, quiet INT, watermark TIMESTAMP"
"""The columns of a mark; the watermark is the same in all rows."""


def _table(name: str) -> str:
    return ".".join(map(quote_name, name.split(".")))
