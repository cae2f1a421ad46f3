"""Reads runs, and the claims of each."""

from __future__ import annotations

import sqlalchemy as sa

from waterclock.batches.audit_records import SPARK_PAGE, RunClaim, RunRecord
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.rows import chunks_of, columns_of, record_of
from waterclock.ledger.store.schema import AnyRow, claim_labels, claims, events, made_by_claim, revisions, runs

_NEWEST = sa.select(runs).order_by(runs.c.started_at.desc(), runs.c.run).limit(sa.bindparam("most"))
_RUN = sa.select(runs).where(runs.c.run == sa.bindparam("which"))
_BEGAN_AND_ENDED = (  # events without a batch are next to each other in the index
    sa.select(events.c.id, events.c.kind)
    .where(
        events.c.table_name.is_(None),
        events.c.label.is_(None),
        events.c.kind.in_(("run began", "run ended")),
        events.c.run == sa.bindparam("which"),
    )
    .order_by(events.c.id)
)
_FIRST_CLAIM = (
    sa.select(events.c.claim)
    .where(events.c.id > sa.bindparam("since"), events.c.kind == "claimed")
    .order_by(events.c.id)
    .limit(1)
)
_CLAIMS = (
    sa.select(*columns_of(claims, "number table_name code status claimed_at closed_at error"))
    .where(
        claims.c.number >= sa.bindparam("low"),
        claims.c.number < sa.bindparam("high"),
        claims.c.run == sa.bindparam("which"),
    )
    .order_by(claims.c.number.desc())
    .limit(sa.bindparam("most"))
)
_LABELS = (
    sa.select(
        claim_labels.c.claim,
        sa.func.min(claim_labels.c.label).label("first"),
        sa.func.max(claim_labels.c.label).label("last"),
        sa.func.count().label("how_many"),
        sa.func.sum(revisions.c.rows).label("rows"),
    )
    .outerjoin(revisions, made_by_claim(revisions, claim_labels, claim_labels.c.claim))
    .where(claim_labels.c.claim.in_(sa.bindparam("numbers", expanding=True)))
    .group_by(claim_labels.c.claim)
)
_FIRST = (
    sa.select(claim_labels.c.claim, claim_labels.c.table_name, sa.func.min(claim_labels.c.label).label("label"))
    .where(claim_labels.c.claim.in_(sa.bindparam("numbers", expanding=True)))
    .group_by(claim_labels.c.claim, claim_labels.c.table_name)
    .subquery()
)
_TIMINGS = sa.select(revisions.c.claim, revisions.c.timings).join(  # each label of a claim has the timings of all
    _FIRST,
    sa.and_(
        revisions.c.table_name == _FIRST.c.table_name,
        revisions.c.label == _FIRST.c.label,
        revisions.c.claim == _FIRST.c.claim,
    ),
)
_PAGE = (
    sa.select(events.c.data)
    .where(
        events.c.table_name.is_(None),
        events.c.label.is_(None),
        events.c.kind == SPARK_PAGE,
        events.c.run == sa.bindparam("which"),
    )
    .order_by(events.c.id.desc())
    .limit(1)
)
_CHUNK = 500
_NO_END = (1 << 63) - 1


def newest_runs(database: LedgerDatabase, most: int = 20) -> list[RunRecord]:
    """Return the newest runs, newest first."""
    with database.read() as connection:
        return [_build_run(row) for row in connection.execute(_NEWEST, {"most": most})]


def find_run(database: LedgerDatabase, name: str) -> RunRecord | None:
    """Return the run of this name, or None."""
    with database.read() as connection:
        row = connection.execute(_RUN, {"which": name}).first()
        return None if row is None else _build_run(row)


def spark_page(database: LedgerDatabase, name: str) -> str | None:
    """Return the address of a run's Spark UI; None if it has none. Cost: grows with the number of runs."""
    with database.read() as connection:
        row = connection.execute(_PAGE, {"which": name}).first()
        return None if row is None else str(row.data["address"])


def claims_of_run(database: LedgerDatabase, run: RunRecord, most: int) -> list[RunClaim]:
    """Return the newest `most` claims of a run, oldest first.

    Cost: there is no index by run. All claims made between the first and the last event of the run are read, newest
    first, until `most` of the run are found. The first event is searched among the events of all runs.
    """
    with database.read() as connection:
        bounds = [_first_claim(connection, row.id) for row in connection.execute(_BEGAN_AND_ENDED, {"which": run.run})]
        if not bounds:
            return []
        low, high = bounds[0], bounds[1] if len(bounds) > 1 else _NO_END
        rows = connection.execute(_CLAIMS, {"low": low, "high": high, "which": run.run, "most": most}).all()
        chunks = list(chunks_of([row.number for row in rows], _CHUNK))
        labels = {row.claim: row for some in chunks for row in connection.execute(_LABELS, {"numbers": some})}
        seconds = dict(tuple(row) for some in chunks for row in connection.execute(_TIMINGS, {"numbers": some}))
    return [
        record_of(
            RunClaim,
            row,
            claim=row.number,
            table=row.table_name,
            first=labels[row.number].first,
            last=labels[row.number].last,
            count=labels[row.number].how_many,
            rows=None if labels[row.number].rows is None else int(labels[row.number].rows),
            seconds=seconds.get(row.number, {}),
        )
        for row in reversed(rows)
        if row.number in labels
    ]


def _first_claim(connection: sa.Connection, since: int) -> int:
    """Return the number of the first claim after an event, or a number above all claims if none follows."""
    number = connection.execute(_FIRST_CLAIM, {"since": since}).scalar()
    return _NO_END if number is None else int(number)


def _build_run(row: AnyRow) -> RunRecord:
    return RunRecord(row.run, row.who, row.command, row.now, row.started_at, row.ended_at, row.outcome)
