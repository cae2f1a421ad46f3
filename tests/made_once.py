"""Caches results that many tests build from scratch and that are always equal.

Typer builds the tree of commands at each call (25 ms), and Alembic runs each migration of a new ledger (40 ms).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest
    import sqlalchemy as sa

_OBJECTS = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"


def build_commands_once(patch: pytest.MonkeyPatch) -> None:
    """Cache each tree of commands that Typer builds."""
    import typer.main
    import typer.testing

    build = functools.cache(typer.main.get_command)
    patch.setattr(typer.main, "get_command", build)
    patch.setattr(typer.testing, "_get_command", build)


def migrate_once(patch: pytest.MonkeyPatch) -> None:
    """Create the tables of a new ledger by the recorded statements of the first migration.

    A ledger that has tables is migrated normally.
    """
    from waterclock.ledger.store import migrations

    migrate, statements = migrations.migrate, list[str]()

    def migrate_or_repeat(connection: sa.Connection) -> None:
        if connection.dialect.name != "sqlite" or connection.exec_driver_sql(_OBJECTS).first() is not None:
            migrate(connection)
            return
        if statements:
            for statement in statements:
                connection.exec_driver_sql(statement)
            return
        migrate(connection)
        statements.extend(sql for (sql,) in connection.exec_driver_sql(_OBJECTS))
        (version,) = connection.exec_driver_sql("SELECT version_num FROM alembic_version").one()
        statements.append(f"INSERT INTO alembic_version VALUES ('{version}')")

    patch.setattr(migrations, "migrate", migrate_or_repeat)
