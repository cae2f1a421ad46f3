"""Finds, shows and drops the tables behind a view in a SQLite database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from waterclock.connectors.sql.delivery_record import DeliveryRecord
from waterclock.connectors.sql.parts import Shown
from waterclock.connectors.sql.versioned_views import Columns, ViewDialect, query_of
from waterclock.connectors.sqlite.database import quote_identifier, table_of
from waterclock.flow.declarations import Unit

_WRITING = ViewDialect(quote_identifier, lambda _: "NULL", lambda label: f"'{label}'")


@dataclass(frozen=True, slots=True)
class SqliteViewTables:
    """The tables and views of a database, in the transaction of a connection."""

    connection: sqlite3.Connection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, or an empty text if the name is free."""
        *schema, name = unit.path.split(".")
        master = f"{quote_identifier(schema[0])}.sqlite_master" if schema else "sqlite_master"
        row = self.connection.execute(f"SELECT type FROM {master} WHERE lower(name) = lower(?)", (name,)).fetchone()
        return str(row[0]) if row else ""

    def labels(self, project: str, publish: str) -> list[str]:
        """Return the labels that were delivered, in order."""
        return DeliveryRecord(self.connection.execute, "?").labels(project, publish)

    def versions(self, project: str, publish: str) -> list[tuple[int, datetime]]:
        """Return the claims that were delivered and their times, oldest first."""
        rows = DeliveryRecord(self.connection.execute, "?").versions(project, publish)
        return [(claim, datetime.fromisoformat(delivered).replace(tzinfo=UTC)) for claim, delivered in rows]

    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Return the columns of the existing tables by path, with one statement."""
        paths = {part.path.lower(): part.path for part in parts}
        found: dict[str, list[tuple[str, str]]] = {}
        if paths:
            schema, dot, _ = parts[0].path.rpartition(".")
            rows = self.connection.execute(
                f"SELECT m.name, x.name, x.type FROM {quote_identifier(schema or 'main')}.sqlite_master AS m"
                " JOIN pragma_table_xinfo(m.name, ?) AS x WHERE m.type = 'table'"
                " AND lower(m.name) IN (SELECT lower(value) FROM json_each(?)) ORDER BY m.name, x.cid",
                (schema or "main", json.dumps([path.rpartition(".")[2] for path in paths])),
            )
            for table, name, kind in rows:
                found.setdefault(paths[f"{schema}{dot}{table}".lower()], []).append((str(name), str(kind)))
        return {**found}

    def show(self, unit: Unit, parts: Mapping[str, Shown]) -> None:
        """Make the unit's view show tables by label, or by "" for a version. Without tables the view is dropped."""
        found = {table_of(part): (label, columns) for label, (part, columns) in parts.items()}
        self.connection.execute(f"DROP VIEW IF EXISTS {table_of(unit)}")
        if found:
            self.connection.execute(f"CREATE VIEW {table_of(unit)} AS {query_of(found, _WRITING)}")

    def drop(self, part: Unit) -> None:
        """Drop a table, if it is there."""
        self.connection.execute(f"DROP TABLE IF EXISTS {table_of(part)}")
