"""Reads the outcomes of attempts and runs, in the order of the ledger's events.

They are not stored separately: events, claims, inputs and revisions have their data at any later time. Events are
numbered in the order of their write transactions, so no event with a smaller number appears after one that was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.records import Input
from waterclock.batches.run_events import LineageEvent, LineageEventKind, LineageEventPage, MadeRows, OpenLineageState
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.rows import columns_of
from waterclock.ledger.store.schema import (
    AnyRow,
    claim_labels,
    claims,
    events,
    inputs,
    lineage_sent,
    made_by_claim,
    revisions,
    tables,
)

_KINDS = tuple(what.value for what in LineageEventKind if what is not LineageEventKind.LEFT)
_IS_LINEAGE_EVENT = sa.and_(events.c.id > sa.bindparam("after"), events.c.kind.in_(_KINDS))
_AFTER = (
    sa.select(
        events,
        claims.c.code,
        claims.c.error,
        *columns_of(revisions, "end version rows bytes measures"),
        tables.c.location,
    )
    .select_from(
        events.outerjoin(claims, claims.c.number == events.c.claim)
        .outerjoin(revisions, made_by_claim(revisions, events, events.c.claim))
        .outerjoin(tables, tables.c.name == events.c.table_name)
    )
    .where(_IS_LINEAGE_EVENT)
    .order_by(events.c.id)
    .limit(sa.bindparam("most"))
)
_INPUTS = (
    sa.select(inputs)
    .where(inputs.c.claim.in_(sa.bindparam("numbers", expanding=True)))
    .order_by(inputs.c.claim, inputs.c.label, inputs.c.position)
)
# the labels of claims, each with its revision if the claim made one
_LABELS = (
    sa.select(claim_labels.c.claim, claim_labels.c.label, revisions.c.claim.label("made"))
    .outerjoin(revisions, made_by_claim(revisions, claim_labels, claim_labels.c.claim))
    .where(claim_labels.c.claim.in_(sa.bindparam("numbers", expanding=True)))
    .order_by(claim_labels.c.claim, claim_labels.c.label)
)
_COUNT = sa.select(sa.func.count()).select_from(events).where(_IS_LINEAGE_EVENT)
_SENT = sa.select(lineage_sent)
_Inputs = Mapping[tuple[int, datetime], Sequence[Input]]


def read_lineage_events(database: LedgerDatabase, after: int, most: int) -> LineageEventPage:
    """Return the outcomes in the `most` events after the number `after`.

    The labels of a claim that it did not make follow those that it made.
    """
    with database.read() as connection:
        rows = connection.execute(_AFTER, {"after": after, "most": most}).all()
        numbers = sorted({row.claim for row in rows if row.claim is not None})
        reads = _read_claim_inputs(connection, numbers)
        unmade = _find_unmade_labels(
            connection, sorted({row.claim for row in rows if row.kind == LineageEventKind.DONE})
        )
    found = tuple(each for row in rows for each in _build_events(row, reads, unmade))
    return LineageEventPage(found, rows[-1].id if rows else after, len(rows) < most)


def openlineage_state(database: LedgerDatabase) -> OpenLineageState:
    """Return the progress of sending to OpenLineage: the last event sent, errors, and the number of unsent events.

    Cost: a count of the unsent events.
    """
    with database.read() as connection:
        row = connection.execute(_SENT).first()
        waiting = connection.execute(_COUNT, {"after": 0 if row is None else row.event}).scalar_one()
    if row is None:
        return OpenLineageState(waiting)
    return OpenLineageState(
        waiting, row.event, row.attempts, row.sent_at, row.try_at, row.error or "", row.left_out, row.refusal or ""
    )


def _build_events(
    row: AnyRow, reads: _Inputs, unmade: Mapping[int, tuple[datetime, Sequence[datetime]]]
) -> Iterator[LineageEvent]:
    what = LineageEventKind(row.kind)
    made = None
    if what is LineageEventKind.DONE and row.version is not None:
        made = MadeRows(row.end, row.version, row.rows, row.bytes, row.location, row.measures)
    yield LineageEvent(
        number=row.id,
        at=row.at,
        what=what,
        who=row.who,
        run=row.run,
        table=row.table_name or "",
        label=row.label,
        claim=row.claim or 0,
        code=row.code or "",
        error=None
        if what is LineageEventKind.CLAIMED
        else str(row.data.get("error") or row.data.get("why") or "") or None,
        word=str(row.data.get("command") or row.data.get("outcome") or ""),
        inputs=() if row.claim is None else tuple(reads.get((row.claim, row.label), ())),
        made=made,
    )
    last, labels = unmade.get(row.claim, (None, ())) if what is LineageEventKind.DONE else (None, ())
    if row.label == last:
        for label in labels:
            yield LineageEvent(
                row.id,
                row.at,
                LineageEventKind.LEFT,
                row.who,
                row.run,
                row.table_name,
                label,
                row.claim,
                row.code or "",
                inputs=tuple(reads.get((row.claim, label), ())),
            )


def _read_claim_inputs(connection: sa.Connection, numbers: Sequence[int]) -> _Inputs:
    found: dict[tuple[int, datetime], list[Input]] = {}
    for row in connection.execute(_INPUTS, {"numbers": numbers}) if numbers else ():
        fields = (row.table_name, row.read, row.kind, row.low, row.high, row.location, row.version, row.content)
        found.setdefault((row.claim, row.label), []).append(Input(*fields))
    return found


def _find_unmade_labels(
    connection: sa.Connection, numbers: Sequence[int]
) -> dict[int, tuple[datetime, list[datetime]]]:
    """Map each claim that made only some of its labels to the last one made, and those not made."""
    last: dict[int, datetime] = {}
    unmade: dict[int, list[datetime]] = {}
    for row in connection.execute(_LABELS, {"numbers": numbers}) if numbers else ():
        if row.made is None:
            unmade.setdefault(row.claim, []).append(row.label)
        else:
            last[row.claim] = row.label
    return {number: (last[number], labels) for number, labels in unmade.items() if number in last}
