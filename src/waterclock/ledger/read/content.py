"""What an interval of a table holds, as one short text that differs where the data differs.

Each current slice weighs a 64-bit hash of (label, digest), kept as two 32-bit halves; the content of an interval is the
sum of each half over its slices, so that it is found by one SUM and changes whenever a slice changes. A slice without
rows weighs nothing: it equals no slice. A slice without a digest weighs by its claim: it equals itself alone, for it is
immutable, and no other revision. For REPLACE tables the content is that of the one batch standing for the window.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import sqlalchemy as sa

from waterclock.batches.facts import content_text
from waterclock.flow.choices import Mode
from waterclock.ledger.store.instants import to_micros
from waterclock.ledger.store.schema import AnyRow, batches

NOTHING = "0.0"
Interval = tuple[datetime, datetime]

# Beyond so many intervals of one table it is cheaper to read its slices once than to ask for each.
FEW = 6
_CHUNK = 500
Sums = tuple[Sequence[int], Sequence[int]]

_IS_CURRENT = batches.c.current_claim.is_not(None)
_SUMS = (
    sa.select(batches.c.table_name, sa.func.sum(batches.c.hash_high), sa.func.sum(batches.c.hash_low))
    .where(
        batches.c.table_name.in_(sa.bindparam("names", expanding=True)),
        batches.c.label >= sa.bindparam("low"),
        batches.c.label < sa.bindparam("high"),
    )
    .group_by(batches.c.table_name)
)
_WEIGHTS = (
    sa.select(batches.c.label, batches.c.hash_high, batches.c.hash_low)
    .where(
        batches.c.table_name == sa.bindparam("name"),
        batches.c.label >= sa.bindparam("low"),
        batches.c.label < sa.bindparam("high"),
    )
    .order_by(batches.c.label)
)
_STANDING = (
    sa.select(batches.c.hash_high, batches.c.hash_low)
    .where(
        batches.c.table_name == sa.bindparam("name"),
        batches.c.label >= sa.bindparam("low"),
        sa.func.coalesce(batches.c.stands_from, batches.c.label) <= sa.bindparam("low"),
        _IS_CURRENT,
    )
    .order_by(batches.c.label)
    .limit(1)
)
_STANDS = (
    sa.select(
        batches.c.label,
        sa.func.coalesce(batches.c.stands_from, batches.c.label).label("stands_from"),
        batches.c.hash_high,
        batches.c.hash_low,
    )
    .where(batches.c.table_name == sa.bindparam("name"), batches.c.label >= sa.bindparam("low"), _IS_CURRENT)
    .order_by(batches.c.label)
)


def weight(label: datetime, digest: str | None, rows: int, claim: int) -> tuple[int, int]:
    """Return both halves of what a slice adds to the content of every interval that holds it."""
    if digest is not None and rows == 0:
        return 0, 0
    what = digest if digest is not None else f"claim {claim}"
    value = blake2b(f"{to_micros(label)}:{what}".encode(), digest_size=8).digest()
    return int.from_bytes(value[:4]), int.from_bytes(value[4:])


def running_contents(rows: Sequence[AnyRow]) -> Sums:
    """Return both halves of the content of the first slices of a table, by how many they are, from none to all."""
    highs = accumulate((row.hash_high or 0 for row in rows), initial=0)
    lows = accumulate((row.hash_low or 0 for row in rows), initial=0)
    return list(highs), list(lows)


def content_between(sums: Sums, first: int, last: int) -> str:
    """Return the content of the slices from the place `first` up to `last`."""
    highs, lows = sums
    return content_text(highs[last] - highs[first], lows[last] - lows[first])


def contents_of(
    connection: sa.Connection, modes: Mapping[str, str], wanted: Iterable[tuple[str, datetime, datetime]]
) -> dict[tuple[str, datetime, datetime], str]:
    """Return the contents of many intervals; a table with many of them is read only once."""
    by_table: defaultdict[str, set[Interval]] = defaultdict(set)
    for table, low, high in wanted:
        by_table[table].add((low, high))
    found: dict[tuple[str, datetime, datetime], str] = {}
    alike: defaultdict[Interval, list[str]] = defaultdict(list)  # tables that are asked for the same interval
    for table, intervals in by_table.items():
        if modes[table] == Mode.REPLACE:
            read = _many_standing if len(intervals) > FEW else _few_standing
            found |= {(table, *interval): text for interval, text in read(connection, table, intervals).items()}
        elif len(intervals) > FEW:
            texts = _many_sums(connection, table, intervals)
            found |= {(table, *interval): text for interval, text in texts.items()}
        else:
            for interval in intervals:
                alike[interval].append(table)
    for (low, high), tables in alike.items():
        found |= {(table, low, high): NOTHING for table in tables}
        for start in range(0, len(tables) if low < high else 0, _CHUNK):
            values = {"names": tables[start : start + _CHUNK], "low": low, "high": high}
            for table, high_sum, low_sum in connection.execute(_SUMS, values):
                found[table, low, high] = content_text(high_sum, low_sum)
    return found


def _few_standing(connection: sa.Connection, table: str, intervals: set[Interval]) -> dict[Interval, str]:
    texts: dict[Interval, str] = {}
    for low, high in intervals:
        row = connection.execute(_STANDING, {"name": table, "low": low}).first() if low < high else None
        texts[low, high] = NOTHING if row is None else content_text(row.hash_high, row.hash_low)
    return texts


def _many_sums(connection: sa.Connection, table: str, intervals: set[Interval]) -> dict[Interval, str]:
    hull = {"name": table, "low": min(low for low, _ in intervals), "high": max(high for _, high in intervals)}
    rows = connection.execute(_WEIGHTS, hull).all()
    labels = [row.label for row in rows]
    sums = running_contents(rows)
    texts: dict[Interval, str] = {}
    for low, high in intervals:
        first, last = bisect_left(labels, low), bisect_left(labels, high)
        texts[low, high] = content_between(sums, first, last) if low < high else NOTHING
    return texts


def _many_standing(connection: sa.Connection, table: str, intervals: set[Interval]) -> dict[Interval, str]:
    rows = connection.execute(_STANDS, {"name": table, "low": min(low for low, _ in intervals)}).all()
    labels = [row.label for row in rows]
    return {(low, high): _standing(rows, labels, low) if low < high else NOTHING for low, high in intervals}


def _standing(rows: Any, labels: list[datetime], low: datetime) -> str:
    for row in rows[bisect_left(labels, low) :]:
        if row.stands_from <= low:
            return content_text(row.hash_high, row.hash_low)
    return NOTHING
