"""Sets what all current slices of a table weigh together anew, where it did not follow from each that was recorded."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from waterclock.ledger.store.schema import batches, tables


def _sum(of: sa.Column[Any]) -> sa.ScalarSelect[Any]:
    return (
        sa.select(sa.func.coalesce(sa.func.sum(of), 0)).where(batches.c.table_name == tables.c.name).scalar_subquery()
    )


SET_SUMS = sa.update(tables).values(sum_high=_sum(batches.c.hash_high), sum_low=_sum(batches.c.hash_low))
