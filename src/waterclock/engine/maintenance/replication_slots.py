"""Removes replication slots at sources that no table needs any more: their table was removed, or a runner crashed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from waterclock.connectors.change_collector import ChangeCollector
from waterclock.engine.collect.changes import may_be_committed, newest_notes
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Place, Table, Unit
from waterclock.flow.enums import Batching
from waterclock.ledger.read.source_events import RELEASED_AT_SOURCE


@dataclass(slots=True)
class UnusedSlot:
    """A replication slot that no table of the project needs. `failed` is the reason if it could not be removed."""

    name: str
    table: str
    connection: str
    unit: str
    failed: str | None = None


def find_unused_slots(work: RunContext) -> list[UnusedSlot]:
    """Find replication slots in the ledger's records that no table needs. Queries no source, and starts no JVM.

    Slots of a table with an open claim or a held batch are left out, since these may still use them.
    """
    kept = work.ledger.past.list_retained_objects(None)
    found = []
    for name, entry in kept.items():
        if may_be_committed(work, str(entry["table"])) or _is_needed(work, name, entry):
            continue
        found.append(UnusedSlot(name, str(entry["table"]), str(entry["connection"]), str(entry["unit"])))
    return found


def release_slot(work: RunContext, found: UnusedSlot) -> None:
    """Remove the slot at the source, unless it is in use. A failure is recorded in `failed`."""
    try:
        if found.connection not in work.flow.connections:
            found.failed = (
                f"the project no longer has the connection {found.connection}: drop {found.name} there by hand"
            )
            return
        collector = work.connections.collector(found.connection)
        unit = Unit(found.connection, found.unit, None, {}, Place("waterclock.toml", 1, 1))
        if isinstance(collector, ChangeCollector) and found.name in collector.release_resources(unit, [found.name]):
            data = {"name": found.name}
            work.ledger.past.add_event(RELEASED_AT_SOURCE, who=work.settings.who, table=found.table, data=data)
        else:
            found.failed = f"{found.name} is in use, and is dropped later"
    except WaterclockError as error:
        found.failed = f"{error.what}: {error.why}"


def _is_needed(work: RunContext, name: str, entry: Mapping[str, Any]) -> bool:
    table = work.flow.tables.get(str(entry["table"]))
    if table is None or not _is_followed(table, str(entry["connection"])):
        return False
    noted = newest_notes(work, table)
    return noted is not None and noted["slot"] == name


def _is_followed(table: Table, connection: str) -> bool:
    source = table.source
    return source is not None and source.batching is Batching.CHANGES and source.unit.connection == connection
