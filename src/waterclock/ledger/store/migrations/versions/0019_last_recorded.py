"""The latest instant at which a revision was recorded; later ones are never recorded before it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and fill it from the revisions."""
    op.add_column("ledger", sa.Column("last_recorded", sa.BigInteger(), nullable=True))
    op.execute("UPDATE ledger SET last_recorded = (SELECT max(recorded_at) FROM revisions)")
