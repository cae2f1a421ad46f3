"""The summed weights of each table's current slices."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Compute the sums of every table, from which the content of a state is found without reading all of its slices."""
    for half in ("high", "low"):
        op.add_column("tables", sa.Column(f"sum_{half}", sa.BigInteger(), nullable=False, server_default="0"))
    sums = "(SELECT coalesce(sum({}), 0) FROM batches WHERE batches.table_name = tables.name)"
    op.execute(f"UPDATE tables SET sum_high = {sums.format('hash_high')}, sum_low = {sums.format('hash_low')}")
