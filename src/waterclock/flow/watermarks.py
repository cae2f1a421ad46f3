"""How far a table's rows have come in their own time: the rule of a watermark, as a function of slices. Pure.

    W(L) = max( W(L-1), min( e(L), least over parts of max(at) - d ) )

where `max(at)` is over all slices up to L. It never falls; it is never beyond the window's end e(L), however far ahead
a clock is; a part from which no slice had rows for `silent_after` windows is left out until it is heard again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from waterclock.spark_sql import quoted
from waterclock.timelabel.cadence import Cadence

SILENT_AFTER = 3
"""After how many windows in a row without rows a part is left out: labels are counted, so that a rebuild agrees."""

MARK = "_mark"
"""What is put behind a table's name for the table that keeps its watermark."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """WATERMARK column lateness [PER (cols)]: rows come up to `lateness` behind the newest one, of each part."""

    column: str
    lateness: timedelta
    per: tuple[str, ...] = ()
    silent_after: int = SILENT_AFTER


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known of a part: its newest time, and for how many windows it has been silent."""

    newest: datetime
    quiet: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """The watermark after a window, None before the first row, and what the next one is made of."""

    at: datetime | None = None
    parts: Mapping[str, Heard] = field(default_factory=dict)


def advance(mark: Mark, newest: Mapping[str, datetime], end: datetime, said: Watermark) -> Mark:
    """Return the mark after a window that ends at `end`, by the newest time of each part that its slice has rows of."""
    parts = {part: Heard(heard.newest, heard.quiet + 1) for part, heard in mark.parts.items()}
    for part, at in newest.items():
        before = parts.get(part)
        parts[part] = Heard(at if before is None else max(at, before.newest))
    speaking = [heard.newest for heard in parts.values() if heard.quiet < said.silent_after]
    reached = [min(end, min(speaking) - said.lateness)] if speaking else []
    return Mark(max([*reached, *([mark.at] if mark.at else [])], default=None), parts)


def is_late(at: datetime, before: Mark) -> bool:
    """Tell whether a row comes too late, by the mark before its slice."""
    return before.at is not None and at < before.at


def carried_by(cadence: Cadence, end: datetime, said: Watermark) -> datetime:
    """Return the end of the first window whose rows can carry the watermark past `end`.

    Rows of a window lie before its end, and the watermark `lateness` behind the newest of them.
    """
    return cadence.next(cadence.floor(end + said.lateness))


def mark_of(table: str) -> str:
    """Name the table that keeps the watermark of `table`."""
    return f"{table}{MARK}"


def query_of(table: str, said: Watermark) -> str:
    """Write the query by which the mark of `table` is made of the mark before and the window's rows; see `advance`."""
    at, of, own = quoted(said.column), _table(table), _table(mark_of(table))
    columns = ", ".join(map(quoted, said.per))
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
    """Write the watermark that the mark in `relation` holds, as an expression; before all rows where there is none."""
    return f"coalesce((SELECT max(watermark) FROM {relation}), TIMESTAMP '0001-01-01 00:00:00')"


REACHED, SLOWEST, SLOWEST_AT = "watermark", "slowest", "slowest_at"
"""Under which names the ledger keeps with each mark the watermark, and the slowest part with its newest time."""
MEASURES = f"""\
max(watermark) AS {REACHED}, min(CASE WHEN quiet < {SILENT_AFTER} THEN newest END) AS {SLOWEST_AT},
  (min(CASE WHEN quiet < {SILENT_AFTER} THEN struct(newest, part) END)).part AS {SLOWEST}"""
"""What is measured of each mark, in the pass that writes it."""

COLUMNS = "part STRING, newest TIMESTAMP, quiet INT, watermark TIMESTAMP"
"""What a mark keeps; its watermark is the same in all rows."""


def _table(name: str) -> str:
    return ".".join(map(quoted, name.split(".")))
