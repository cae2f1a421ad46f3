"""Follows a table of a real server batch by batch without Spark, and applies each batch by key."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import Any

from tests.postgres import Server, server
from waterclock.connectors.change_collector import ChangeRequest
from waterclock.connectors.postgres.change_collection import TableFollower, confirm
from waterclock.connectors.postgres.database import PostgresDatabase
from waterclock.connectors.postgres.slots import Slot, create_slot
from waterclock.connectors.postgres.table_facts import facts_of
from waterclock.flow.changes import MISSING, OP
from waterclock.flow.declarations import Column, Columns, Place, Unit

HERE = Place("a.dpl", 1, 1)
EVER = datetime(2100, 1, 1, tzinfo=UTC)
COLUMNS = "id int PRIMARY KEY, code int NOT NULL UNIQUE, a text, b text"
ROWS = "INSERT INTO t SELECT n, n + 10, 'a', repeat('b', 2100) FROM generate_series(1, 3) AS n"


class Rows:
    """A substitute for Spark that returns its input rows."""

    def createDataFrame(self, rows: Any, schema: Any = None) -> list[dict[str, Any]]:  # noqa: N802 - Spark's own name
        del schema
        return rows.to_pylist() if rows else []


class Follower:
    """A table with a slot, and the rows of its replica."""

    def __init__(
        self,
        plugin: str,
        columns: str = COLUMNS,
        rows: str = ROWS,
        list_of: Columns | None = None,
        at: Server | None = None,
    ) -> None:
        self.at, self.plugin = at or server(), plugin
        self.schema = self.at.fresh_schema()
        self.at.run(f"CREATE SCHEMA {self.schema}")
        self.database = PostgresDatabase(self.at.url, "here", "here", self.schema)
        self.sql(f"CREATE TABLE t ({columns})")
        if "b text" in columns:
            self.sql("ALTER TABLE t ALTER b SET STORAGE EXTERNAL")
        self.sql(rows)
        self.unit = Unit("ops", "t", None, {}, HERE)
        self.held: dict[Any, dict[str, Any]] = {}
        self.declare(list_of or Columns((Column("id", HERE, is_key=True),)))
        self.begin()

    def declare(self, columns: Columns) -> None:
        """Use these columns from now on."""
        self.following = TableFollower(self.database, self.unit, columns, "UTC")

    def sql(self, *texts: str) -> None:
        """Run statements, each in its own session."""
        for text in texts:
            with closing(self.at.connect()) as connection:
                connection.execute(f"SET search_path = {self.schema}")
                connection.execute(text)

    def begin(self) -> None:
        """Read the whole table, as the first batch does."""
        slot = Slot(f"waterclock_{self.schema}", self.plugin)
        with create_slot(self.database, "t", slot, f'"{self.schema}".t') as start, ExitStack() as held:
            connection = held.enter_context(self.database.open_for_reading("t", snapshot=start.snapshot))
            there, matched = self.following._columns(connection)
            del there
            self.noted = self.following._build_source_state(
                connection, slot, facts_of(connection, self.unit), matched, None
            )
            place = self.following._read_log_end()
            self.noted |= self.following._build_position(start.position, start.at, place)
            self.held = self.rows(connection)

    def rows(self, connection: Any) -> dict[Any, dict[str, Any]]:
        """Return the rows of the table on a connection."""
        cursor = connection.execute(f"SELECT * FROM {self.schema}.t")
        names = [each.name for each in cursor.description]
        return {row[0]: dict(zip(names, row, strict=True)) for row in cursor.fetchall()}

    def source(self) -> dict[Any, dict[str, Any]]:
        """Return the current rows of the table."""
        with closing(self.at.connect()) as connection:
            return self.rows(connection)

    def read(self, until: datetime = EVER, *, is_confirmed: bool = True) -> list[Mapping[str, Any]]:
        """Collect the changes since the last read, and apply them."""
        spark: Any = Rows()
        read = self.following.read(spark, ChangeRequest(("id",), self.noted, until, lambda: "none"))
        rows: Any = read.collected.frame
        gone: dict[str, Any] = {}
        for row in rows:
            if row[OP] == "truncate":
                self.held.clear()
            elif row[OP] == "delete":
                gone = self.held.pop(row["id"], {})
            else:
                before = self.held.get(row["id"], {}) if row[OP] == "update" else gone
                told = {name: value for name, value in row.items() if not name.startswith("_waterclock")}
                self.held[row["id"]] = {
                    name: before.get(name) if name in row[MISSING] else value for name, value in told.items()
                }
        self.noted = dict(read.noted)
        if is_confirmed:
            confirm(self.database, self.unit, self.noted)
        return list(rows)
