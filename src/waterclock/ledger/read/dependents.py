"""Finds the done batches that depend, directly or indirectly, on batches that will be made again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from math import inf

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.flow.declarations import Flow
from waterclock.flow.graph import circles_of, readers_of
from waterclock.ledger import ledger_errors
from waterclock.ledger.read.inputs import IS_CURRENT, build_overlap_values, extend_to_readers
from waterclock.ledger.store.schema import AnyRow, batches, inputs
from waterclock.timelabel.intervals import IntervalSet

Key = tuple[str, datetime]
Span = tuple[datetime, datetime]

_FEW = 8
_CHUNK = 500

_READERS = extend_to_readers(
    sa.select(
        inputs.c.reader, batches.c.label, batches.c.end, batches.c.stands_from, inputs.c.low, inputs.c.high,
        inputs.c.table_name,
    ).join(batches, IS_CURRENT)
)  # fmt: skip
_LATER = sa.select(batches.c.table_name, batches.c.label, batches.c.end, batches.c.stands_from).where(
    batches.c.table_name == sa.bindparam("name"),
    batches.c.label >= sa.bindparam("low"),
    batches.c.current_claim.is_not(None),
)


def find_dependent_batches(
    connection: sa.Connection,
    flow: Flow,
    seeds: Mapping[Key, Span],
    *,
    within: Mapping[str, datetime] | None = None,
    most: int | None = None,
    uncounted: int = 0,
) -> Mapping[str, set[datetime]]:
    """Map each table to the labels of the seeds and of all done batches that depend on them, directly or indirectly.

    `seeds` maps batches to the spans that they cover. `within` limits the result to its tables, and to labels before an
    instant of each. The search goes from table to table by merged spans, not from batch to batch. Tables that read each
    other in a cycle (through PREVIOUS) are included in full from the oldest span on: an upper bound, found in one step
    instead of one per window. Raises E525 as soon as more than `most` + `uncounted` dependents are found. `uncounted`
    is the number of batches that the caller does not count towards the limit.
    """
    circles = circles_of({name: {read.table for read in table.reads} for name, table in flow.tables.items()})
    readers = _Readers(connection, flow)
    found: defaultdict[str, set[datetime]] = defaultdict(set)
    spans: dict[str, list[Span]] = defaultdict(list)
    for (name, label), span in seeds.items():
        found[name].add(label)
        spans[name].append(span)
    left = inf if most is None else most + uncounted
    while spans:
        reached: dict[str, list[Span]] = defaultdict(list)
        for name, of_table in spans.items():
            for row in _find_direct_readers(readers, name, of_table, circles.get(name, frozenset()), within):
                if row[1] not in found[row[0]]:
                    found[row[0]].add(row[1])
                    reached[row[0]].append((row[3] or row[1], row[2]))
                    left -= 1
                    if left < 0:
                        raise ledger_errors.too_many_batches_error(most or 0)
        spans = reached
    return found


class _Readers:
    """Finds the batches that read a span of a table. It reads ahead for all downstream tables, as spans are similar."""

    def __init__(self, connection: sa.Connection, flow: Flow) -> None:
        self.connection = connection
        self._readers_of = readers_of(flow)
        self._known: defaultdict[str, list[tuple[Span, list[AnyRow]]]] = defaultdict(list)

    def find(self, name: str, low: datetime, high: datetime) -> Iterable[AnyRow]:
        """Return the inputs of current revisions that read a table within a span. Some of them may be outside it."""
        for span, rows in self._known[name]:
            if span[0] <= low and high <= span[1]:
                return rows
        self._query_readers(name, low, high)
        return self._known[name][-1][1]

    def _query_readers(self, name: str, low: datetime, high: datetime) -> None:
        overlapping = [span for span, _ in self._known[name] if span[0] < high and low < span[1]]
        if overlapping:  # the span grows from table to table: double it each time, to avoid a query for each
            low, high = min(low, *(span[0] for span in overlapping)), max(high, *(span[1] for span in overlapping))
            length = high - low
            low, high = low - min(length, low - BEGINNING), high + min(length, FOREVER - high)
        names = self._list_downstream(name)
        rows: dict[str, list[AnyRow]] = {each: [] for each in names}
        for start in range(0, len(names), _CHUNK):
            for row in self.connection.execute(
                _READERS, build_overlap_values(names[start : start + _CHUNK], low, high)
            ):
                rows[row[6]].append(row)
        for each, of_table in rows.items():
            self._known[each].append(((low, high), of_table))

    def _list_downstream(self, name: str) -> list[str]:
        found, reached = {name}, [name]
        while reached:
            new = set(self._readers_of.get(reached.pop(), ())) - found
            found |= new
            reached += new
        return sorted(found)


def _find_direct_readers(
    readers: _Readers,
    name: str,
    spans: Iterable[Span],
    circle: frozenset[str],
    within: Mapping[str, datetime] | None,
) -> Iterable[AnyRow]:
    merged = IntervalSet.from_intervals(spans)
    intervals = list(merged)
    oldest, newest = intervals[0][0], intervals[-1][1]
    if len(intervals) > _FEW:  # each query scans all long reads of data newer than its interval
        intervals = [(oldest, newest)]
    for low, high in intervals:
        for row in readers.find(name, low, high):
            if (within is None or row[1] < within.get(row[0], BEGINNING)) and merged.overlaps(row.low, row.high):
                yield row
    for other in sorted(circle if within is None else circle & within.keys()):
        yield from readers.connection.execute(_LATER, {"name": other, "low": oldest})
