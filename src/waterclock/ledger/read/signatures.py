"""Compares declarations with tables that have batches: the properties that only `rebuild` or `reset` may change."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from waterclock.batches.audit_records import RESET
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Table
from waterclock.ledger import ledger_errors
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import AnyRow, batches, claim_labels, events, tables

Difference = tuple[str, str, str]
"""One difference of a table's declaration: the property, its old value and its new one."""
SIGNATURE = ("kind", "type", "mode", "cadence", "zone", "keys")

_TABLES = sa.select(tables)
# a label that is only requested is no batch: it has no claim, and no user has decided its state
_HAS_DECIDED = sa.select(
    sa.exists().where(batches.c.table_name == sa.bindparam("of"), batches.c.status.is_not(None)),
)
_NEWEST_CLAIM = sa.select(sa.func.max(claim_labels.c.claim)).where(claim_labels.c.table_name == sa.bindparam("of"))
LAST_RESET = (
    sa.select(events.c.data)
    .where(events.c.table_name == sa.bindparam("of"), events.c.label.is_(None), events.c.kind == RESET)
    .order_by(events.c.id.desc())
    .limit(1)
)
"""Selects the data of a table's last reset. Its `claim` is higher than the claims of all batches before the reset."""


def refused_tables(database: LedgerDatabase, flow: Flow) -> dict[str, WaterclockError]:
    """Map each table whose declaration would change the meaning of its batches to its error E405.

    Such a table keeps its data, and no batch of it or of its readers is made until it is rebuilt or reset.
    """
    with database.read() as connection:
        rows = {row.name: row for row in connection.execute(_TABLES)}
        return refused_among(connection, flow, rows)


def refused_among(connection: sa.Connection, flow: Flow, rows: Mapping[str, AnyRow]) -> dict[str, WaterclockError]:
    """Return the errors of `refused_tables`. `rows` maps the names of tables to their database rows."""
    found = {}
    for name, table in flow.tables.items():
        row = rows.get(name)
        if row is not None and (differs := signature_differences(row, table)) and has_batches(connection, name):
            found[name] = ledger_errors.changed_declaration_error(name, differs, str(table.place))
    return found


def has_batches(connection: sa.Connection, table: str) -> bool:
    """Return whether a table has any batch since its last reset. A label that is only requested does not count."""
    if connection.execute(_HAS_DECIDED, {"of": table}).scalar():
        return True
    newest = connection.execute(_NEWEST_CLAIM, {"of": table}).scalar()
    reset = None if newest is None else connection.execute(LAST_RESET, {"of": table}).first()
    return newest is not None and (reset is None or newest > reset.data["claim"])


def signature_differences(row: AnyRow, table: Table) -> list[Difference]:
    """Return the differences between a declaration and the ledger that only `rebuild` or `reset` may resolve."""
    declared: Mapping[str, str] = signature_of(table)
    return [(what, getattr(row, what), declared[what]) for what in SIGNATURE if getattr(row, what) != declared[what]]


def signature_of(table: Table) -> dict[str, str]:
    """Return the properties of a table that only `rebuild` or `reset` may change, as the ledger stores them."""
    return {
        "kind": table.kind.value,
        "type": table.type.value,
        "mode": table.mode.value,
        "cadence": str(table.cadence.period),
        "zone": table.cadence.zone,
        "keys": str(table.temporal) if table.temporal else ", ".join(table.keys),
    }
