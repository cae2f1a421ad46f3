"""Reads which code made a table's batches, and when each version was declared."""

from __future__ import annotations

import sqlalchemy as sa

from waterclock.batches.audit_records import DECLARED, CodeVersion, DeclaredStatement
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import batches, events

_DECLARED = (
    sa.select(events.c.at, events.c.who, events.c.data)
    .where(events.c.table_name == sa.bindparam("of"), events.c.label.is_(None), events.c.kind == DECLARED)
    .order_by(events.c.id.desc())
    .limit(sa.bindparam("most"))
)
_ALL_DECLARED = (
    sa.select(events.c.at, events.c.table_name, events.c.data)
    .where(events.c.table_name.is_not(None), events.c.label.is_(None), events.c.kind == DECLARED)
    .order_by(events.c.id)
)
_MADE = (
    sa.select(
        batches.c.code,
        sa.func.count().label("how_many"),
        sa.func.min(batches.c.label).label("first"),
        sa.func.max(batches.c.label).label("last"),
    )
    .where(batches.c.table_name == sa.bindparam("of"), batches.c.current_claim.is_not(None))
    .group_by(batches.c.code)
    .order_by(sa.func.max(batches.c.recorded_at).desc())
)


def declared_code(database: LedgerDatabase, name: str) -> tuple[str, str] | None:
    """Return the code of a table that was declared last, and its statement; None if none was declared."""
    with database.read() as connection:
        found = connection.execute(_DECLARED, {"of": name, "most": 1}).first()
    return None if found is None else (str(found.data["code"]), str(found.data["statement"]))


def declared_statements(database: LedgerDatabase) -> list[DeclaredStatement]:
    """Return all declarations of tables, oldest first."""
    with database.read() as connection:
        return [
            DeclaredStatement(row.at, row.table_name, str(row.data["code"]), str(row.data["statement"]))
            for row in connection.execute(_ALL_DECLARED)
        ]


def codes(database: LedgerDatabase, name: str, most: int = 1000) -> list[CodeVersion]:
    """Return the last `most` declared code versions of a table, newest first, then others that its batches still have.

    If a code was declared several times, its batches are counted at its newest declaration. Cost: the database scans
    the table's batches.
    """
    with database.read() as connection:
        declared = connection.execute(_DECLARED, {"of": name, "most": most}).all()
        made = {row.code: row for row in connection.execute(_MADE, {"of": name})}
    found = []
    for row in declared:
        batches_of = made.pop(row.data["code"], None)
        found.append(
            CodeVersion(
                code=row.data["code"],
                declared_at=row.at,
                who=row.who,
                statement=row.data["statement"],
                count=0 if batches_of is None else batches_of.how_many,
                first=None if batches_of is None else batches_of.first,
                last=None if batches_of is None else batches_of.last,
            )
        )
    return found + [
        CodeVersion(row.code, None, None, None, row.how_many, row.first, row.last)
        for row in made.values()
        if row.code is not None
    ]
