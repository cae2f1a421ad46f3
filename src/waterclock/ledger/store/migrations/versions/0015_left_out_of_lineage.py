"""The number of events that a lineage tool rejected, while it accepted later ones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the count: none was left out before."""
    with op.batch_alter_table("lineage_sent") as batch:
        batch.add_column(sa.Column("left_out", sa.Integer(), nullable=False, server_default="0"))
        batch.add_column(sa.Column("refusal", TEXT, nullable=True))
