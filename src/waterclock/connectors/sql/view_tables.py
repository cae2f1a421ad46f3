"""Base class of the tables and views of a database, in the transaction of a connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waterclock.connectors.sql.sessions import SqlSession
from waterclock.connectors.sql.versioned_views import Columns, query_of
from waterclock.flow.declarations import Unit

Shown = tuple[Unit, Columns]


@dataclass(frozen=True, slots=True)
class SqlViewTables(ABC):
    """The tables and views of a database; the abstract methods are specific to its catalog."""

    session: SqlSession

    @abstractmethod
    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, or an empty text if the name is free."""

    @abstractmethod
    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Return the columns of the existing tables by path, with one statement."""

    def labels(self, project: str, publish: str) -> list[str]:
        """Return the labels that were delivered, in order."""
        return self.session.record.labels(project, publish)

    def versions(self, project: str, publish: str) -> list[tuple[int, datetime]]:
        """Return the claims that were delivered and their times, oldest first."""
        return [(claim, self._instant(at)) for claim, at in self.session.record.versions(project, publish)]

    def show(self, unit: Unit, parts: Mapping[str, Shown]) -> None:
        """Make the unit's view show tables by label, or by "" for a version. Without tables the view is dropped."""
        dialect = self.session.dialect
        found = {dialect.table_of(part): (label, columns) for label, (part, columns) in parts.items()}
        self._show(dialect.table_of(unit), query_of(found, dialect) if found else "")

    def drop(self, part: Unit) -> None:
        """Drop a table, if it is there."""
        self.session.execute(f"DROP TABLE IF EXISTS {self.session.dialect.table_of(part)}")

    def _show(self, view: str, query: str) -> None:
        """Create the view anew; without a query, drop it."""
        self.session.execute(f"DROP VIEW IF EXISTS {view}")
        if query:
            self.session.execute(f"CREATE VIEW {view} AS {query}")

    def _instant(self, delivered_at: Any) -> datetime:
        """Convert the time of a delivery from the database's format."""
        at: datetime = delivered_at
        return at


def group_columns(rows: Iterable[Sequence[Any]], paths: Mapping[str, str]) -> dict[str, Columns]:
    """Return columns by path, from rows of table, column and type; `paths` maps the tables of the rows to paths."""
    found: dict[str, list[tuple[str, str]]] = {}
    for table, name, kind in rows:
        found.setdefault(paths[str(table)], []).append((str(name), str(kind)))
    return {**found}
