"""Reads events of tables that belong to no batch: what a source retains, waits for a source, and maintenance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import AnyRow, events

KEPT = "kept at a source"
"""The kind of event that records an object, such as a replication slot, that a source retains for a table."""
RELEASED_AT_SOURCE = "let go at a source"
"""The kind of event that records that a source no longer retains the object of this name."""
SEEN = "seen at a source"
"""The kind of event that records the state of the change log that a source retains, as a run found it."""

WAITS = "waits for its source"
"""The kind of event that records the oldest due window that waits for its source, or that none waits any more."""

MAINTENANCE = "maintenance"
"""The kind of event that records that a watching run began to maintain a table, and the bytes to join and to free."""

_RETENTION_EVENTS = sa.select(events.c.kind, events.c.table_name, events.c.data).where(
    events.c.kind.in_([KEPT, RELEASED_AT_SOURCE])
)
_OF = _RETENTION_EVENTS.where(events.c.table_name == sa.bindparam("of"), events.c.label.is_(None)).order_by(events.c.id)
_ALL = _RETENTION_EVENTS.order_by(events.c.id)
_NAMES: sa.BindParameter[Any] = sa.bindparam("names", expanding=True)
_OF_SOME = _RETENTION_EVENTS.where(events.c.table_name.in_(_NAMES), events.c.label.is_(None)).order_by(events.c.id)
_NEWEST_SEEN = (
    sa.select(sa.func.max(events.c.id))
    .where(events.c.table_name.in_(_NAMES), events.c.label.is_(None), events.c.kind == sa.bindparam("kind_"))
    .group_by(events.c.table_name)
)
_SEEN = sa.select(events.c.table_name, events.c.at, events.c.data).where(events.c.id.in_(_NEWEST_SEEN))


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """The time and data of the last event of one kind of a table."""

    at: datetime
    data: Mapping[str, Any]


def list_retained_objects(database: LedgerDatabase, name: str | None = None) -> Mapping[str, Mapping[str, Any]]:
    """Map the name of each object that a source retains, such as a replication slot, to its `table` and recorded data.

    `name` restricts the result to one table. Cost: the events of the table that belong to no batch; without `name`, all
    events.
    """
    with database.read() as connection:
        return _collect_retained_objects(
            connection.execute(_ALL if name is None else _OF, {} if name is None else {"of": name})
        )


def read_kept_for_tables(database: LedgerDatabase, names: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
    """Return the same as `list_retained_objects` for some tables. Cost: one query of their events without a label."""
    with database.read() as connection:
        return _collect_retained_objects(connection.execute(_OF_SOME, {"names": sorted(names)}))


def read_retained_states(database: LedgerDatabase, names: Collection[str]) -> Mapping[str, SourceEvent]:
    """Map each table to the last recorded state of the change log that its source retains. Cost: one query."""
    return _read_newest_states(database, names, SEEN)


def waits_for_sources(database: LedgerDatabase, names: Collection[str]) -> Mapping[str, SourceEvent]:
    """Map each table to its last event about waiting for its source. Its data has the waiting `label`, if one waits."""
    return _read_newest_states(database, names, WAITS)


def read_last_maintenance(database: LedgerDatabase, names: Collection[str]) -> Mapping[str, SourceEvent]:
    """Map each table to the event of its last maintenance by a watching run. Cost: one query."""
    return _read_newest_states(database, names, MAINTENANCE)


def _read_newest_states(database: LedgerDatabase, names: Collection[str], kind: str) -> Mapping[str, SourceEvent]:
    with database.read() as connection:
        rows = connection.execute(_SEEN, {"names": sorted(names), "kind_": kind})
        return {row.table_name: SourceEvent(row.at, row.data or {}) for row in rows}


def _collect_retained_objects(rows: Iterable[AnyRow]) -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row.kind == KEPT:
            found[str(row.data["name"])] = {**row.data, "table": row.table_name}
        else:
            found.pop(str(row.data["name"]), None)
    return found
