"""Reads users' notes on rules."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from waterclock.batches.audit_records import RULE_NOTED, RuleNote
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import events

_NOTED = (  # events of a table without a label are next to each other in the index
    sa.select(events.c.table_name, events.c.who, events.c.at, events.c.data)
    .where(
        events.c.table_name.in_(sa.bindparam("names", expanding=True)),
        events.c.label.is_(None),
        events.c.kind == RULE_NOTED,
    )
    .order_by(events.c.id)
)


def rule_notes(database: LedgerDatabase, names: Collection[str]) -> dict[tuple[str, str], RuleNote]:
    """Map each (table, rule) to its last note; rules whose note was removed are left out."""
    with database.read() as connection:
        rows = connection.execute(_NOTED, {"names": sorted(names)})
        found = [RuleNote(row.table_name, row.data["rule"], row.data["text"], row.who, row.at) for row in rows]
    newest = {(note.table, note.rule): note for note in found}
    return {rule: note for rule, note in newest.items() if note.text}
