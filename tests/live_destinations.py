"""Databases to which the tests publish open windows: their settings in a project file, and the reads of a dashboard."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import mariadb, postgres
from tests.tiny import TOML


@dataclass(frozen=True)
class LiveDestination:
    """A database with the connection `live`. `read` runs a query as another program does."""

    kind: str
    options: str
    read: Callable[[str], list[Any]]

    @property
    def toml(self) -> str:
        """The project file of a tiny project with the connection."""
        return f"{TOML}connections.live = {{{{ {self.options} }}}}\n"

    @property
    def declared(self) -> str:
        """The statement that declares the connection."""
        return f"CREATE CONNECTION live TYPE {self.kind};\n"

    def ids(self, table: str = "clicks") -> list[int]:
        """Return the ids that the view shows; none before it exists."""
        return [int(row[0]) for row in self.read(f"SELECT id FROM {table}")]


def live_destination(kind: str, folder: Path) -> LiveDestination:
    """Return an empty database of a kind of connection, for a project in `folder`."""
    if kind == "postgres":
        schema = postgres.server().fresh_schema()
        postgres.server().run(f"CREATE SCHEMA {schema}")
        url = postgres.server().url
        return LiveDestination(kind, f'url = "{url}", schema = "{schema}"', lambda sql: _read_postgres(schema, sql))
    if kind == "mysql":
        name = mariadb.server().fresh_database()
        options = f'url = "{mariadb.server().url(name)}"'
        return LiveDestination(kind, options, lambda sql: mariadb.server().run(sql, database=name))
    path = folder / f"live.{kind}"
    read = _read_sqlite if kind == "sqlite" else _read_duckdb
    return LiveDestination(kind, f'path = "{path.name}", create = true', lambda sql: read(path, sql))


def _read_sqlite(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        return connection.execute(sql).fetchall()


def _read_duckdb(path: Path, sql: str) -> list[Any]:
    import duckdb

    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        return connection.execute(sql).fetchall()


def _read_postgres(schema: str, sql: str) -> list[Any]:
    with closing(postgres.server().connect()) as connection:
        connection.execute(f"SET search_path = {schema}")
        found: list[Any] = connection.execute(sql).fetchall()
        return found
