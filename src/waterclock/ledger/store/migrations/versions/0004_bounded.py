"""Indexes by which what a long history holds is found without walking it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Find claims by when they were done, slices by the version they came with, and the reads of many windows apart."""
    op.create_index("revisions_of_version", "revisions", ["table_name", "version"], unique=False)
    _partial("claims_done", "claims", ["closed_at"], "status = 'done'")
    _partial(
        "inputs_read_long",
        "inputs",
        ["table_name", "high", "low", "reader", "label", "claim"],
        "high - low > 2764800000000",
    )


def _partial(name: str, table: str, columns: list[str], where: str) -> None:
    said = sa.text(where)
    op.create_index(name, table, columns, unique=False, sqlite_where=said, postgresql_where=said)
