"""A view of the measures of current batches, for external readers."""

from __future__ import annotations

from types import ModuleType

from alembic import op

from waterclock.ledger.store import postgres, sqlite

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the view: measures are stored as JSON with each revision since the first schema."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    words: ModuleType = sqlite if is_sqlite else postgres
    if is_sqlite:
        each = "json_each(r.measures, '$.measured') AS m"
        name, value, kind = "m.key", "json_extract(m.value, '$.value')", "json_extract(m.value, '$.type')"
    else:
        each = "json_each(r.measures -> 'measured') AS m"
        found = ("m.key", "m.value ->> 'value'", "m.value ->> 'type'")
        name, value, kind = (f'({one}) COLLATE "C"' for one in found)  # as all texts of the ledger
    op.execute("DROP VIEW IF EXISTS waterclock_measures")
    op.execute(f"""
        CREATE VIEW waterclock_measures AS
        SELECT b.table_name AS "table", {words.label_text("b.label")} AS timelabel, {name} AS name,
               {value} AS value, {kind} AS type, b.current_claim AS claim
        FROM batches b
        JOIN revisions r ON r.table_name = b.table_name AND r.label = b.label AND r.claim = b.current_claim
        CROSS JOIN {each}
    """)
