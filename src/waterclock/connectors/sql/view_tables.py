"""Base class for the catalog of a database: creates, lists and drops tables and views in a transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waterclock.connectors.sql.sessions import SqlSession
from waterclock.connectors.sql.versioned_views import Columns, query_of
from waterclock.flow.declarations import Unit

ViewPart = tuple[Unit, Columns]


@dataclass(frozen=True, slots=True)
class SqlViewTables(ABC):
    """The tables and views of a database; the abstract methods are specific to its catalog."""

    session: SqlSession

    @abstractmethod
    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, the kind of object with the unit's name; empty if the name is free."""

    @abstractmethod
    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Map the path of each table that exists to its columns. Cost: one statement."""

    def labels(self, project: str, publish: str) -> list[str]:
        """Return the labels that were delivered, in order."""
        return self.session.record.labels(project, publish)

    def versions(self, project: str, publish: str) -> list[tuple[int, datetime]]:
        """Return the claims that delivered rows and their times of delivery, oldest first."""
        return [(claim, self._instant(at)) for claim, at in self.session.record.versions(project, publish)]

    def show(self, unit: Unit, parts: Mapping[str, ViewPart]) -> None:
        """Replace the unit's view by one over the tables `parts`, keyed by label ("" for a version).

        Without tables, drop the view.
        """
        dialect = self.session.dialect
        found = {dialect.table_of(part): (label, columns) for label, (part, columns) in parts.items()}
        self._show(dialect.table_of(unit), query_of(found, dialect) if found else "")

    def show_query(self, unit: Unit, query: str) -> None:
        """Replace the unit's view by one with a query, or create it."""
        self._show(self.session.dialect.table_of(unit), query)

    def drop(self, part: Unit) -> None:
        """Drop a table, if it exists."""
        self.session.execute(f"DROP TABLE IF EXISTS {self.session.dialect.table_of(part)}")

    def _show(self, view: str, query: str) -> None:
        """Drop the view, and create it again if there is a query."""
        self.session.execute(f"DROP VIEW IF EXISTS {view}")
        if query:
            self.session.execute(f"CREATE VIEW {view} AS {query}")

    def _instant(self, delivered_at: Any) -> datetime:
        """Convert the time of a delivery from the database's format to an instant."""
        at: datetime = delivered_at
        return at


def group_columns(rows: Iterable[Sequence[Any]], paths: Mapping[str, str]) -> dict[str, Columns]:
    """Group rows of (table, column, type) into the columns of each table; `paths` maps table names to paths."""
    found: dict[str, list[tuple[str, str]]] = {}
    for table, name, kind in rows:
        found.setdefault(paths[str(table)], []).append((str(name), str(kind)))
    return {**found}
