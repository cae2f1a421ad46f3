"""Which done batches rest, directly or through others, on batches that are to be made again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.facts import BEGINNING
from waterclock.flow.declarations import Flow
from waterclock.flow.graph import circles_of
from waterclock.ledger.read.inputs import overlapping, with_readers
from waterclock.ledger.store.schema import AnyRow, batches, inputs
from waterclock.timelabel.intervals import IntervalSet

Key = tuple[str, datetime]
Span = tuple[datetime, datetime]

_FEW = 8

_IS_CURRENT = sa.and_(
    batches.c.table_name == inputs.c.reader,
    batches.c.label == inputs.c.label,
    batches.c.current_claim == inputs.c.claim,
)
_READERS = with_readers(
    sa.select(inputs.c.reader, batches.c.label, batches.c.end, batches.c.stands_from, inputs.c.low, inputs.c.high).join(
        batches, _IS_CURRENT
    )
)
_LATER = sa.select(batches.c.table_name, batches.c.label, batches.c.end, batches.c.stands_from).where(
    batches.c.table_name == sa.bindparam("name"),
    batches.c.label >= sa.bindparam("low"),
    batches.c.current_claim.is_not(None),
)


def resting_on(
    connection: sa.Connection, flow: Flow, seeds: Mapping[Key, Span], *, within: Mapping[str, datetime] | None = None
) -> Mapping[str, set[datetime]]:
    """Return the seeds and every done batch that rests on one, by table.

    `within`: of these tables alone, and of each before an instant.
    Goes from table to table by merged spans, not from batch to batch. Tables that read each other in a circle (through
    PREVIOUS) are taken whole from the oldest span on: an upper bound, found in one step instead of one a window.
    """
    circles = circles_of({name: {read.table for read in table.reads} for name, table in flow.tables.items()})
    found: defaultdict[str, set[datetime]] = defaultdict(set)
    spans: dict[str, list[Span]] = defaultdict(list)
    for (name, label), span in seeds.items():
        found[name].add(label)
        spans[name].append(span)
    while spans:
        reached: dict[str, list[Span]] = defaultdict(list)
        for name, of_table in spans.items():
            for row in _readers(connection, name, of_table, circles.get(name, frozenset()), within):
                if row[1] not in found[row[0]]:
                    found[row[0]].add(row[1])
                    reached[row[0]].append((row[3] or row[1], row[2]))
        spans = reached
    return found


def _readers(
    connection: sa.Connection,
    name: str,
    spans: Iterable[Span],
    circle: frozenset[str],
    within: Mapping[str, datetime] | None,
) -> Iterable[AnyRow]:
    merged = IntervalSet.from_intervals(spans)
    asked = list(merged)
    oldest, newest = asked[0][0], asked[-1][1]
    if len(asked) > _FEW:  # each query walks the long readers of all that is newer than its interval
        asked = [(oldest, newest)]
    for low, high in asked:
        for row in connection.execute(_READERS, overlapping(name, low, high)):
            if (within is None or row[1] < within.get(row[0], BEGINNING)) and merged.overlaps(row.low, row.high):
                yield row
    for other in sorted(circle if within is None else circle & within.keys()):
        yield from connection.execute(_LATER, {"name": other, "low": oldest})
