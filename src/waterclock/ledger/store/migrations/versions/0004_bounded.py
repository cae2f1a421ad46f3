"""Indexes for finding data of a long history without walking it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add indexes of claims by the time they were done, of slices by their version, and of long reads."""
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
