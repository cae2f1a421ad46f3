"""Interfaces for opening a database and for running statements in an open connection, independent of the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from waterclock.connectors.sql.delivery_record import DeliveryRecord, StatementResult
from waterclock.connectors.sql.dialect import SqlDialect

_Opened_co = TypeVar("_Opened_co", covariant=True)


class ReadableDatabase(Protocol[_Opened_co]):
    """A database that can be opened for reading, in one transaction."""

    def open_for_reading(self, where: str) -> AbstractContextManager[_Opened_co]:
        """Open a read transaction. All reads see the same state of the database."""


@dataclass(frozen=True, slots=True)
class SqlResult:
    """The complete result of a statement: its rows, and the number of changed rows."""

    rows: Sequence[Any]
    rowcount: int = -1

    def fetchone(self) -> Any:
        """Return the first row, or None if there are no rows."""
        return self.rows[0] if self.rows else None

    def fetchall(self) -> Sequence[Any]:
        """Return all rows."""
        return self.rows


@dataclass(frozen=True, slots=True)
class SqlSession:
    """Runs statements in an open connection. `dialect.place` is the placeholder of each value."""

    dialect: SqlDialect
    run: Callable[[str, Sequence[Any] | None], StatementResult]

    def execute(self, sql: str, values: Sequence[Any] | None = None) -> None:
        """Run a statement whose result is not needed."""
        self.run(sql, values)

    def first_of(self, sql: str, values: Sequence[Any] | None = None) -> Any:
        """Run a statement and return the first row of its result; None if there are no rows."""
        return self.run(sql, values).fetchone()

    def execute_update(self, sql: str, values: Sequence[Any] | None = None) -> int:
        """Run a statement and return the number of rows that it changed."""
        return self.run(sql, values).rowcount

    def rows_of(self, sql: str, values: Sequence[Any] | None = None) -> Sequence[Any]:
        """Run a query and return all its rows."""
        return self.run(sql, values).fetchall()

    @property
    def record(self) -> DeliveryRecord:
        """The record of deliveries in the database."""
        return DeliveryRecord(self.run, self.dialect)
