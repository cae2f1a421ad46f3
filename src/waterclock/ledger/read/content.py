"""Computes the *content* of a table's interval: a short text that differs whenever the rows differ.

Each current slice has a weight, a 64-bit hash of (label, digest), stored as two 32-bit halves. The content of an
interval is the sum of each half over its slices. So one SUM computes it, and it changes whenever a slice changes. A
slice without rows has no weight, as if there were no slice. The exception is a snapshot of a TEMPORAL table, which ends
all keys. The weight of a slice without a digest is computed from its claim, so that no two revisions have the same
weight. For REPLACE tables the content is that of the one batch that covers the window.

A state of a MERGE or TEMPORAL table has all slices from the first on. The database table `tables` stores the sum of all
current slices. A state's content is that sum minus the newer slices, so recent states cost little after any history. A
snapshot is part of the states from the first window on that it covers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import content_sums, content_text
from waterclock.flow.enums import FOLDS, Mode
from waterclock.ledger.store.instants import to_micros
from waterclock.ledger.store.rows import chunks_of
from waterclock.ledger.store.schema import AnyRow, batches, tables

NOTHING = "0.0"
Interval = tuple[datetime, datetime]

# For more intervals of one table than this, reading its slices once is cheaper than a query for each interval.
FEW = 6
_CHUNK = 500
MOST_AT_ONCE = 8  # queries combined into one statement
Sums = tuple[Sequence[int], Sequence[int]]

_IS_CURRENT = batches.c.current_claim.is_not(None)
_counts_from = sa.func.coalesce(batches.c.stands_from, batches.c.label)
_SUMS = (
    sa.select(batches.c.table_name, sa.func.sum(batches.c.hash_high), sa.func.sum(batches.c.hash_low))
    .where(
        batches.c.table_name.in_(sa.bindparam("names", expanding=True)),
        batches.c.label >= sa.bindparam("low"),
        batches.c.label < sa.bindparam("high"),
    )
    .group_by(batches.c.table_name)
)
_NAMES: sa.BindParameter[str] = sa.bindparam("names", expanding=True)
_STATE_TERMS = sa.union_all(  # the sum of all slices, and the negative weights of those outside the state
    sa.select(tables.c.name.label("of"), tables.c.sum_high.label("high"), tables.c.sum_low.label("low")).where(
        tables.c.name.in_(_NAMES)
    ),
    *(
        sa.select(batches.c.table_name, -batches.c.hash_high, -batches.c.hash_low).where(
            batches.c.table_name.in_(_NAMES), is_outside
        )
        for is_outside in (
            batches.c.label < sa.bindparam("low"),
            sa.and_(batches.c.label >= sa.bindparam("high"), _counts_from >= sa.bindparam("high")),
        )
    ),
).subquery()
_SUMS_OF_STATES = sa.select(
    _STATE_TERMS.c.of, sa.func.sum(_STATE_TERMS.c.high), sa.func.sum(_STATE_TERMS.c.low)
).group_by(_STATE_TERMS.c.of)
# The spans of current slices do not overlap, so sorting by label also sorts by the start of the span.
_WEIGHTS, _WEIGHTS_OF_STATES = (
    sa.select(batches.c.label, counts_from.label("counts_from"), batches.c.hash_high, batches.c.hash_low)
    .where(
        batches.c.table_name == sa.bindparam("name"),
        batches.c.label >= sa.bindparam("low"),
        counts_from < sa.bindparam("high"),
        _IS_CURRENT,
    )
    .order_by(batches.c.label)
    for counts_from in (batches.c.label, _counts_from)
)
_COVERING_SLICES = (
    sa.select(batches.c.label, _counts_from.label("stands_from"), batches.c.hash_high, batches.c.hash_low)
    .where(batches.c.table_name == sa.bindparam("name"), batches.c.label >= sa.bindparam("low"), _IS_CURRENT)
    .order_by(batches.c.label)
)


def weight(label: datetime, digest: str | None, rows: int, claim: int, *, ends_keys: bool = False) -> tuple[int, int]:
    """Return both halves of the weight that a slice adds to the content of every interval that contains it.

    `ends_keys`: the slice is a snapshot of a TEMPORAL table, in which missing keys end.
    """
    if digest is not None and rows == 0 and not ends_keys:
        return 0, 0
    what = digest if digest is not None else f"claim {claim}"
    value = blake2b(f"{to_micros(label)}:{what}".encode(), digest_size=8).digest()
    return int.from_bytes(value[:4]), int.from_bytes(value[4:])


def running_contents(rows: Sequence[AnyRow]) -> Sums:
    """Return the running sums of the slices' weights: one list for each half, which begins with 0."""
    highs = accumulate((row.hash_high or 0 for row in rows), initial=0)
    lows = accumulate((row.hash_low or 0 for row in rows), initial=0)
    return list(highs), list(lows)


def content_between(sums: Sums, first: int, last: int) -> str:
    """Return the content (a sum of hashes) of the slices at the positions `first` to `last - 1`."""
    highs, lows = sums
    return content_text(highs[last] - highs[first], lows[last] - lows[first])


def contents_of(
    connection: sa.Connection, modes: Mapping[str, str], wanted: Iterable[tuple[str, datetime, datetime]]
) -> dict[tuple[str, datetime, datetime], str]:
    """Return the content of each interval `(table, low, high)`. A table with many intervals is read only once."""
    by_table: defaultdict[str, set[Interval]] = defaultdict(set)
    for table, low, high in wanted:
        by_table[table].add((low, high))
    found: dict[tuple[str, datetime, datetime], str] = {}
    replaced: list[tuple[str, datetime, datetime]] = []
    alike: defaultdict[tuple[bool, Interval], list[str]] = defaultdict(list)  # tables with the same interval
    for table, intervals in by_table.items():
        is_replaced = modes[table] == Mode.REPLACE
        if len(intervals) > FEW:
            of_mode = (
                _find_all_covering_contents
                if is_replaced
                else _compute_many_states
                if modes[table] in FOLDS
                else _sum_many_intervals
            )
            texts = of_mode(connection, table, intervals)
            found |= {(table, *interval): text for interval, text in texts.items()}
        elif is_replaced:
            replaced += [(table, *interval) for interval in intervals]
        else:
            for interval in intervals:
                alike[modes[table] in FOLDS, interval].append(table)
    for (is_state, interval), names in alike.items():
        found |= _sum_few_intervals(connection, _SUMS_OF_STATES if is_state else _SUMS, names, interval)
    return found | _find_covering_contents(connection, replaced)


def _sum_few_intervals(
    connection: sa.Connection, query: sa.Select[*tuple[Any, ...]], names: Sequence[str], interval: Interval
) -> dict[tuple[str, datetime, datetime], str]:
    low, high = interval
    texts = {(name, low, high): NOTHING for name in names}
    for start in range(0, len(names) if low < high else 0, _CHUNK):
        values = {"names": names[start : start + _CHUNK], "low": low, "high": high}
        for name, high_sum, low_sum in connection.execute(query, values):
            texts[name, low, high] = content_text(high_sum, low_sum)
    return texts


def _find_covering_contents(
    connection: sa.Connection, wanted: Sequence[tuple[str, datetime, datetime]]
) -> dict[tuple[str, datetime, datetime], str]:
    """Map each window of a REPLACE table to the content of the batch that covers it, several windows per statement."""
    texts = dict.fromkeys(wanted, NOTHING)
    nonempty = [each for each in wanted if each[1] < each[2]]
    for chunk in chunks_of(nonempty, MOST_AT_ONCE):
        values: dict[str, Any] = {}
        for at, (name, low, _) in enumerate(chunk):
            values |= {f"of_{at}": name, f"low_{at}": low}
        for row in connection.execute(_select_covering_slices(len(chunk)), values):
            texts[chunk[row.place]] = content_text(row.hash_high, row.hash_low)
    return texts


@cache
def _select_covering_slices(count: int) -> sa.CompoundSelect[*tuple[Any, ...]]:
    """Build the query for the slices that cover `count` windows."""

    def select_slice(at: int) -> sa.Select[*tuple[Any, ...]]:
        first = (
            sa.select(batches.c.hash_high, batches.c.hash_low)
            .where(
                batches.c.table_name == sa.bindparam(f"of_{at}"),
                batches.c.label >= sa.bindparam(f"low_{at}"),
                _counts_from <= sa.bindparam(f"low_{at}"),
                _IS_CURRENT,
            )
            .order_by(batches.c.label)
            .limit(1)
            .subquery()
        )
        return sa.select(sa.literal_column(str(at)).label("place"), first.c.hash_high, first.c.hash_low)

    return sa.union_all(*map(select_slice, range(count)))


def _sum_many_intervals(
    connection: sa.Connection, table: str, intervals: set[Interval], *, are_states: bool = False
) -> dict[Interval, str]:
    hull = {"name": table, "low": min(low for low, _ in intervals), "high": max(high for _, high in intervals)}
    rows = connection.execute(_WEIGHTS_OF_STATES if are_states else _WEIGHTS, hull).all()
    labels, counting = [row.label for row in rows], [row.counts_from for row in rows]
    sums = running_contents(rows)
    texts: dict[Interval, str] = {}
    for low, high in intervals:
        first, last = bisect_left(labels, low), bisect_left(counting, high)
        texts[low, high] = content_between(sums, first, last) if low < high else NOTHING
    return texts


def _compute_many_states(connection: sa.Connection, table: str, intervals: set[Interval]) -> dict[Interval, str]:
    """Map each interval to the content of its state. It is computed from the oldest state's content.

    The weights of the later slices are added to it.
    """
    by_end = sorted((each for each in intervals if each[0] < each[1]), key=lambda each: each[1])
    if len({low for low, _ in by_end}) != 1:  # states start at different instants if START was moved
        return _sum_many_intervals(connection, table, intervals, are_states=True)
    (low, oldest), (_, newest) = by_end[0], by_end[-1]
    before = content_sums(_sum_few_intervals(connection, _SUMS_OF_STATES, [table], by_end[0])[table, low, oldest])
    found = connection.execute(_WEIGHTS_OF_STATES, {"name": table, "low": oldest, "high": newest})
    rows = [row for row in found if row.counts_from >= oldest]
    counting = [row.counts_from for row in rows]
    highs, lows = running_contents(rows)
    texts = dict.fromkeys(intervals, NOTHING)
    for each in by_end:
        place = bisect_left(counting, each[1])
        texts[each] = content_text(before[0] + highs[place], before[1] + lows[place])
    return texts


def _find_all_covering_contents(connection: sa.Connection, table: str, intervals: set[Interval]) -> dict[Interval, str]:
    rows = connection.execute(_COVERING_SLICES, {"name": table, "low": min(low for low, _ in intervals)}).all()
    labels = [row.label for row in rows]
    return {
        (low, high): _find_covering_content(rows, labels, low) if low < high else NOTHING for low, high in intervals
    }


def _find_covering_content(rows: Any, labels: list[datetime], low: datetime) -> str:
    for row in rows[bisect_left(labels, low) :]:
        if row.stands_from <= low:
            return content_text(row.hash_high, row.hash_low)
    return NOTHING
