"""Reads how long the batches of some tables took, by label."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import sqlalchemy as sa

from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import IS_DONE, claim_labels, claims

_SHARING = claim_labels.alias("sharing")
# the time of a claim in microseconds, in equal parts for each of its labels
TOOK = (
    sa.type_coerce(claims.c.closed_at, sa.BigInteger) - sa.type_coerce(claims.c.claimed_at, sa.BigInteger)
) / sa.select(sa.func.count()).where(_SHARING.c.claim == claims.c.number).scalar_subquery()
_BY_LABEL = (
    sa.select(claim_labels.c.label, sa.func.sum(TOOK).label("took"))
    .join(claims, claims.c.number == claim_labels.c.claim)
    .where(
        claim_labels.c.table_name.in_(sa.bindparam("names", expanding=True)),
        claim_labels.c.label >= sa.bindparam("low"),
        claim_labels.c.label < sa.bindparam("high"),
        IS_DONE,
        claims.c.closed_at > claims.c.claimed_at,
    )
    .group_by(claim_labels.c.label)
)


def durations(
    database: LedgerDatabase, names: Collection[str], low: datetime, high: datetime
) -> dict[datetime, timedelta]:
    """Map each label in `[low, high)` to the total time of the claims that made it in these tables, or made it again.

    The time of a claim is divided equally among its labels. Cost: some 3 µs a label and claim, in the database.
    """
    with database.read() as connection:
        rows = connection.execute(_BY_LABEL, {"names": sorted(names), "low": low, "high": high})
        return {row.label: timedelta(microseconds=float(row.took)) for row in rows}
