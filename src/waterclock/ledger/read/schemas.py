"""Reads the schema versions of a table and of its source."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from waterclock.batches.schemas import SchemaVersion, Side
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import schemas

_OF_TABLE = (
    sa.select(schemas)
    .where(schemas.c.table_name == sa.bindparam("of"))
    .order_by(schemas.c.side, schemas.c.version.desc())
)
_NEWER = schemas.alias("newer")
_NEWEST_OF_TABLE = _OF_TABLE.where(
    schemas.c.version
    > sa.select(sa.func.max(_NEWER.c.version) - sa.bindparam("most"))
    .where(_NEWER.c.table_name == sa.bindparam("of"), _NEWER.c.side == schemas.c.side)
    .correlate(schemas)
    .scalar_subquery()
)


def schemas_of(database: LedgerDatabase, table: str) -> tuple[SchemaVersion, ...]:
    """Return all versions of a table's columns and of its source's columns, for each the newest first."""
    with database.read() as connection:
        return schemas_within(connection, table)


def schemas_within(connection: sa.Connection, table: str) -> tuple[SchemaVersion, ...]:
    """Return the same as `schemas_of`, within a transaction."""
    return tuple(_build_schema_version(row) for row in connection.execute(_OF_TABLE, {"of": table}))


def newest_schemas(database: LedgerDatabase, table: str, most: int) -> tuple[SchemaVersion, ...]:
    """Return the newest `most` versions of a table's columns and of its source's, for each the newest first."""
    with database.read() as connection:
        rows = connection.execute(_NEWEST_OF_TABLE, {"of": table, "most": most})
        return tuple(_build_schema_version(row) for row in rows)


def _build_schema_version(row: sa.Row[Any]) -> SchemaVersion:
    return SchemaVersion(Side(row.side), row.version, row.label, row.claim, row.columns, row.at)
