"""The statement that recomputes `sum_high` and `sum_low` of tables from the weights of their current slices."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from waterclock.ledger.store.schema import batches, tables


def _sum(of: sa.Column[Any]) -> sa.ScalarSelect[Any]:
    return (
        sa.select(sa.func.coalesce(sa.func.sum(of), 0)).where(batches.c.table_name == tables.c.name).scalar_subquery()
    )


SET_SUMS = sa.update(tables).values(sum_high=_sum(batches.c.hash_high), sum_low=_sum(batches.c.hash_low))
