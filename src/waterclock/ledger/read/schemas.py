"""Versions of the columns of a table and of what it collects."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from waterclock.batches.schemas import SchemaVersion, Side
from waterclock.ledger.store.database import Database
from waterclock.ledger.store.schema import schemas

_OF_TABLE = (
    sa.select(schemas)
    .where(schemas.c.table_name == sa.bindparam("of"))
    .order_by(schemas.c.side, schemas.c.version.desc())
)


def schemas_of(database: Database, table: str) -> tuple[SchemaVersion, ...]:
    """Return all versions of a table's columns and of its source's, the newest of each first."""
    with database.read() as connection:
        return schemas_within(connection, table)


def schemas_within(connection: sa.Connection, table: str) -> tuple[SchemaVersion, ...]:
    """Do what `schemas_of` does, within a transaction."""
    return tuple(_version(row) for row in connection.execute(_OF_TABLE, {"of": table}))


def _version(row: sa.Row[Any]) -> SchemaVersion:
    return SchemaVersion(Side(row.side), row.version, row.label, row.claim, row.columns, row.at)
