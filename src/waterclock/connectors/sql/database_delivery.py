"""Base classes that deliver to databases, with a record of deliveries and, optionally, tables behind a view.

The table `waterclock_deliveries` in the destination's own database has a row for each claim and label, written in the
transaction that delivers the rows. It shows the outcome of each claim, and a claim with a row is not delivered again.

REPLACE   of a regular table replaces all rows of the destination; with WHERE, those of its condition.
MERGE     of a regular table deletes the rows of deleted keys, and replaces the rows whose keys are in the slice.
          Columns of the destination that the publish does not name keep their values.
APPEND    and anything from a partitioned table: the destination has a column `timelabel`, and the rows of a label
          replace the earlier rows of that label. A MERGE never changes a row with a newer label.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome, OpenWindowReader
from waterclock.connectors.sql.delivery_record import DeliveryRecord, missing_record_message
from waterclock.connectors.sql.privileges import PrivilegeReader, require_for_delivery
from waterclock.connectors.sql.replace_where import require_unchanged_condition
from waterclock.connectors.sql.sessions import ReadableDatabase, SqlSession
from waterclock.connectors.sql.union_delivery import UnionWriter, prepare_union, record_closed, show_open_windows
from waterclock.connectors.sql.union_views import closed_unit
from waterclock.connectors.sql.versioned_views import (
    has_union_view,
    is_behind_view,
    own_table_delivery,
    require_replaceable_object,
)
from waterclock.connectors.sql.view_parts import (
    begin_part,
    drop_labels,
    drop_old_versions,
    find_label_tables,
    update_view,
)
from waterclock.connectors.sql.view_tables import SqlViewTables
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow.declarations import Unit

_Connection = TypeVar("_Connection")
_Opened_co = TypeVar("_Opened_co", covariant=True)
_Columns = TypeVar("_Columns")
_Answer = TypeVar("_Answer")


class WritableDatabase(ReadableDatabase[_Opened_co], Protocol[_Opened_co]):
    """A database that can be opened for reading and for writing."""

    def open_for_writing(self, where: str) -> AbstractContextManager[_Opened_co]:
        """Open for writing, in a transaction that commits if the block succeeds.

        MariaDB, MySQL and Firebird start no transaction, as tables are altered before it (`delivery_after_ddl`).
        """


class DatabaseDeliverer(ABC, Generic[_Connection]):
    """Delivers to a database. The abstract methods are specific to the kind of database."""

    __slots__ = ()

    @abstractmethod
    def deliver(self, unit: Unit, deliveries: Sequence[Delivery]) -> tuple[Delivered, ...]:
        """Deliver the slices of one claim, as documented in `Deliverer`."""

    @property
    @abstractmethod
    def _destination(self) -> WritableDatabase[_Connection]:
        """The database to which rows are delivered."""

    @property
    def _catalog(self) -> ReadableDatabase[_Connection]:
        """The database for short queries of its catalog and of the record of deliveries."""
        return self._destination

    @abstractmethod
    def _session(self, connection: _Connection) -> SqlSession:
        """Return an object that runs statements in an open connection."""

    @abstractmethod
    def _prepare(self, connection: _Connection, project: str, publish: str) -> None:
        """Create the record of deliveries if it is missing, and wait until no other runner delivers this publish."""

    @abstractmethod
    def _has_record(self, connection: _Connection) -> bool:
        """Return whether the record of deliveries exists."""

    @abstractmethod
    def _tables(self, connection: _Connection) -> SqlViewTables:
        """Return an object that creates, lists and drops tables and views."""

    @abstractmethod
    def _destination_names(self, connection: _Connection, unit: Unit) -> Mapping[str, str]:
        """Map the destination's column names in lower case to their spelling; empty if the table does not exist."""

    @abstractmethod
    def _union_writer(self, connection: _Connection) -> UnionWriter[Any]:
        """Return the functions that write to the tables of closed and open windows under a view."""

    def _limit_pauses(self, connection: _Connection) -> None:
        """Let the server end the connection if its runner stops between two statements, as it holds a lock.

        Batches need no such limit, as their connections are found by their claims. Database files have none.
        """

    def _open_for_writing(
        self, where: str, *, called: tuple[str, int] | None = None
    ) -> AbstractContextManager[_Connection]:
        """Open for writing, in a transaction that commits if the block succeeds.

        `called` is the project and the claim, by which another process can find the connection.
        """
        del called
        return self._destination.open_for_writing(where)

    @property
    def _privileges(self) -> PrivilegeReader | None:
        """The reader of the login's privileges; None for a database file, which has no logins."""
        return None

    def _record(self, connection: _Connection) -> DeliveryRecord:
        """Return the record of deliveries."""
        return self._session(connection).record

    def _find_missing_database(self) -> str | None:
        """Return a message if the database file does not exist and a delivery would create it; else None."""
        return None

    def labels(self, unit: Unit, project: str, publish: str) -> tuple[str, ...]:
        """Return the labels that have a separate table behind the unit's view."""
        return self._read(unit, lambda opened: find_label_tables(self._tables(opened), unit, project, publish)) or ()

    def drop(self, unit: Unit, project: str, publish: str, labels: Sequence[str]) -> int:
        """Drop the tables of labels behind the unit's view. Return the number of dropped tables."""
        with self._open_for_writing(str(unit)) as connection:
            self._prepare(connection, project, publish)
            return drop_labels(self._tables(connection), unit, project, publish, labels)

    def show_open(self, unit: Unit, project: str, publish: str, read: OpenWindowReader) -> int:
        """Write the open windows that `read` returns to their table under the view, in one transaction.

        Raises the errors of `deliver`.
        """
        with self._open_for_writing(str(unit)) as connection:
            self._limit_pauses(connection)
            self._prepare(connection, project, publish)
            changed = show_open_windows(self._union_writer(connection), unit, project, publish, read)
        fault("open.shown")
        return changed

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Record a claim as killed, unless it has an outcome already. Return the recorded outcome."""
        with self._open_for_writing(str(unit)) as connection:
            self._prepare(connection, project, publish)
            return self._record(connection).kill(project, publish, claim)

    def find(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered | None:
        """Return the outcome of a claim; None without one, or if the database does not exist yet."""
        del publish
        return self._read(unit, lambda connection: (self._record(connection).find(project, claim) or (None,))[-1])

    def last(self, unit: Unit, project: str, publish: str) -> Delivered | None:
        """Return the newest delivery of the newest label; None if nothing was delivered."""
        if self._find_missing_database():
            return None
        with self._catalog.open_for_reading(str(unit)) as connection:
            return self._record(connection).newest(project, publish) if self._has_record(connection) else None

    def require_privileges(self, unit: Unit, *, is_merge: bool) -> None:
        """Raise E821 if the login has no privilege to deliver to the table, or to create it."""
        reader = self._privileges
        if reader is not None:
            with self._catalog.open_for_reading(str(unit)) as connection:
                require_for_delivery(self._session(connection), reader, closed_unit(unit), is_merge=is_merge)

    def find_loss(self, unit: Unit, project: str, publish: str, claim: int) -> str | None:
        """Describe the part of a claim's delivery that is missing in the database; None if it is intact.

        Checks the claim's row in `waterclock_deliveries`, the destination table, and the newest label's rows in it.
        """
        missing = self._find_missing_database()
        if missing:
            return missing

        def ask(connection: _Connection) -> str | None:
            session, dialect = self._session(connection), self._session(connection).dialect
            table = closed_unit(unit)
            spelt = self._destination_names(connection, table).items()
            there = {name: dialect.quote_identifier(own) for name, own in spelt}
            return session.record.find_loss(table, dialect.table_of(table), project, publish, claim, there)

        return self._read(unit, ask, otherwise=missing_record_message(claim))

    def _clean(self, unit: Unit, delivery: Delivery) -> None:
        """Drop tables of versions that were replaced longer ago than the option `keep`.

        A table that a reader has locked is dropped by a later delivery.
        """
        if is_behind_view(unit) and not delivery.is_by_label:
            with suppress(WaterclockError), self._open_for_writing(str(unit)) as connection:
                drop_old_versions(self._tables(connection), unit, delivery.project, delivery.publish)

    def _read(
        self, unit: Unit, ask: Callable[[_Connection], _Answer | None], *, otherwise: _Answer | None = None
    ) -> _Answer | None:
        if self._find_missing_database():
            return otherwise
        with self._destination.open_for_reading(str(unit)) as connection:
            return ask(connection) if self._has_record(connection) else otherwise


class SingleTransactionDeliverer(DatabaseDeliverer[_Connection], Generic[_Connection, _Columns]):
    """Delivers to a database with transactional DDL. `_Columns` describes the columns of a table."""

    __slots__ = ()

    @abstractmethod
    def _prepare_table(self, connection: _Connection, unit: Unit, delivery: Delivery, *, is_ours: bool) -> _Columns:
        """Create or alter the destination table for the delivery's columns, and return its columns.

        `is_ours`: this publish has delivered to the table before. Otherwise a table with rows is refused, unless the
        option `adopt` is set.
        """

    @abstractmethod
    def _deliver_rows(self, connection: _Connection, unit: Unit, delivery: Delivery, there: _Columns) -> Delivered:
        """Write the rows of a slice into a prepared table, and return the outcome."""

    def deliver(self, unit: Unit, deliveries: Sequence[Delivery]) -> tuple[Delivered, ...]:
        """Write the slices of a claim and their records in `waterclock_deliveries`, in one transaction.

        Raises E820 for a table with rows that the project did not publish, E811 (transient) for a locked database,
        E810, E812, E813 and E821. An error leaves the database unchanged.
        """
        where = f"{unit}@{', '.join(delivery.label_text for delivery in deliveries)}"
        first = deliveries[0]
        with self._open_for_writing(where, called=(first.project, first.claim)) as connection:
            self._prepare(connection, first.project, first.publish)
            recorded = self._record(connection).find(first.project, first.claim)
            if recorded:
                return recorded
            delivered = tuple(self._deliver_one(connection, unit, delivery) for delivery in deliveries)
            fault("deliver.rows")
        self._clean(unit, first)
        fault("deliver.done")
        return delivered

    def _union_writer(self, connection: _Connection) -> UnionWriter[_Columns]:
        return UnionWriter(
            tables=self._tables(connection),
            prepare=lambda unit, delivery, is_ours: self._prepare_table(connection, unit, delivery, is_ours=is_ours),
            write=partial(self._deliver_rows, connection),
            transaction=nullcontext,
        )

    def _deliver_one(self, connection: _Connection, unit: Unit, delivery: Delivery) -> Delivered:
        record = self._record(connection)
        newest = record.newest(delivery.project, delivery.publish)
        if newest and not delivery.is_by_label and newest.label_text > delivery.label_text:
            delivered = Delivered(delivery.claim, DeliveryOutcome.OLDER, delivery.label_text, 0, 0, delivery.note)
        elif has_union_view(unit):
            writer = self._union_writer(connection)
            prepared = prepare_union(writer, unit, delivery)
            delivered = self._deliver_rows(connection, closed_unit(unit), delivery, prepared.closed)
            record_closed(writer, unit, delivery, prepared)
        else:
            require_replaceable_object(unit, delivery, self._tables(connection).kind_at(unit), newest)
            if is_behind_view(unit):
                delivered = self._deliver_behind_view(connection, unit, delivery)
            else:
                require_unchanged_condition(unit, delivery, newest)
                there = self._prepare_table(connection, unit, delivery, is_ours=newest is not None)
                delivered = self._deliver_rows(connection, unit, delivery, there)
        record.put(delivery, delivered)
        return delivered

    def _deliver_behind_view(self, connection: _Connection, unit: Unit, delivery: Delivery) -> Delivered:
        """Write the rows to the table of a version or of a label, and add that table to the view."""
        part, is_ours = begin_part(self._tables(connection), unit, delivery)
        there = self._prepare_table(connection, part, own_table_delivery(delivery), is_ours=is_ours)
        delivered = self._deliver_rows(connection, part, own_table_delivery(delivery), there)
        update_view(self._tables(connection), unit, delivery, part)
        return delivered
