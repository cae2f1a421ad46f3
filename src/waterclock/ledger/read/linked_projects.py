"""Reads recorded inputs from other projects' tables, and the declarations that other projects read from this one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.audit_records import DECLARED
from waterclock.ledger.read.inputs import IS_CURRENT
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import batches, events, inputs, ledger, tables

_READ = (
    sa.select(inputs.c.label, inputs.c.claim, inputs.c.low, inputs.c.high, inputs.c.content)
    .join(
        batches,
        IS_CURRENT,
    )
    .where(batches.c.table_name == sa.bindparam("of"), inputs.c.table_name == sa.bindparam("read"))
    .order_by(inputs.c.label)
)
_NEWEST = (
    sa.select(sa.func.max(events.c.id))
    .where(events.c.table_name.in_(sa.select(tables.c.name)), events.c.label.is_(None), events.c.kind == DECLARED)
    .group_by(events.c.table_name)
)
_STATEMENTS = sa.select(events.c.table_name, events.c.data).where(events.c.id.in_(_NEWEST))
_PROJECT = sa.select(ledger.c.project)
_TABLES = sa.select(
    tables.c.name, tables.c.kind, tables.c.type, tables.c.mode, tables.c.cadence, tables.c.zone, tables.c.is_declared,
).order_by(tables.c.name)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LinkedInput:
    """The interval `[low, high)` of another project's table that a label's current revision, made by `claim`, read."""

    label: datetime
    claim: int
    low: datetime
    high: datetime
    content: str


@dataclass(frozen=True, slots=True)
class LinkedDeclaration:
    """A table in a ledger: its properties and its newest statement. `is_declared`: the flow still declares it."""

    name: str
    kind: str
    type: str
    mode: str
    cadence: str
    zone: str
    is_declared: bool
    statement: str = ""


@dataclass(frozen=True, slots=True)
class Declarations:
    """The tables in a ledger by name, and the name of its project."""

    project: str | None
    tables: dict[str, LinkedDeclaration]


def read_elsewhere(database: LedgerDatabase, table: str, upstream: str) -> list[LinkedInput]:
    """Return the intervals of `upstream`, a table of another project, that the done labels of `table` have read.

    Cost: some microseconds a label.
    """
    with database.read() as connection:
        rows = connection.execute(_READ, {"of": table, "read": upstream})
        return [LinkedInput(*row) for row in rows]


def read_declarations(database: LedgerDatabase) -> Declarations:
    """Return the last declarations of a project, including those of tables that it no longer declares."""
    with database.read() as connection:
        statements = {row.table_name: str(row.data.get("statement", "")) for row in connection.execute(_STATEMENTS)}
        found = (LinkedDeclaration(*row, statements.get(row.name, "")) for row in connection.execute(_TABLES))
        return Declarations(connection.execute(_PROJECT).scalar(), {each.name: each for each in found})
