"""What sources keep for tables, as far as the ledger was told: replication slots, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from waterclock.ledger.store.database import Database
from waterclock.ledger.store.schema import events

KEPT = "kept at a source"
"""The kind of event that tells what a source keeps for a table from now on."""
LET_GO = "let go at a source"
"""The kind of event that tells that a source keeps nothing any more under a name."""

_TOLD = sa.select(events.c.kind, events.c.table_name, events.c.data).where(events.c.kind.in_([KEPT, LET_GO]))
_OF = _TOLD.where(events.c.table_name == sa.bindparam("of"), events.c.label.is_(None)).order_by(events.c.id)
_ALL = _TOLD.order_by(events.c.id)


def kept_at_sources(database: Database, name: str | None = None) -> Mapping[str, Mapping[str, Any]]:
    """Return what is kept for a table, or for all, by name: its `table`, and what was said of it.

    Cost: the events of the table that are of no batch; without a table, all events
    """
    found: dict[str, Mapping[str, Any]] = {}
    with database.read() as connection:
        for row in connection.execute(_ALL if name is None else _OF, {} if name is None else {"of": name}):
            if row.kind == KEPT:
                found[str(row.data["name"])] = {**row.data, "table": row.table_name}
            else:
                found.pop(str(row.data["name"]), None)
    return found
