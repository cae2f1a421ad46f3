"""Base class for databases in which a table must be created or altered before the transaction that delivers the rows.

In some databases a statement that creates or alters a table commits the transaction, in others its effect cannot be
used before a commit. So the table is altered first, and a view is switched after the commit. If a later attempt finds
the claim delivered, it switches the view again. A failed delivery may leave an empty table, or new columns that are
NULL.
"""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.sql.database_delivery import DatabaseDeliverer
from waterclock.connectors.sql.destination import NamedColumn, stored_names
from waterclock.connectors.sql.privileges import PrivilegeReader
from waterclock.connectors.sql.replace_where import replaced_rows, require_unchanged_condition
from waterclock.connectors.sql.sessions import SqlSession
from waterclock.connectors.sql.staged_slices import StagedSlice
from waterclock.connectors.sql.union_delivery import PreparedUnion, UnionWriter, prepare_union, record_closed
from waterclock.connectors.sql.union_views import closed_unit
from waterclock.connectors.sql.versioned_views import (
    has_union_view,
    is_behind_view,
    own_table_delivery,
    part_name,
    part_of,
    require_replaceable_object,
)
from waterclock.connectors.sql.view_parts import begin_part, find_label_tables, update_view
from waterclock.connectors.sql.view_tables import SqlViewTables
from waterclock.faults import fault
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Mode

_Connection = TypeVar("_Connection")
_Column = TypeVar("_Column", bound=NamedColumn)
_VERSION_COMMENT = re.compile(r"waterclock \w{16} \d+")


@dataclass(frozen=True, slots=True)
class ReadyDelivery(Generic[_Column]):
    """A delivery with its prepared table `into` and the table's columns `there`, by lower-case name.

    `into` is None if the delivery is skipped, because the destination has a newer label. `union`: the tables under a
    view over closed and open windows.
    """

    delivery: Delivery
    into: Unit | None
    there: Mapping[str, _Column]
    staged: StagedSlice | None = None
    union: PreparedUnion[Mapping[str, _Column]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DdlWriter(Generic[_Connection, _Column]):
    """The functions of a kind of database that a delivery uses.

    - `session`, `tables` and `columns` return a session, the tables and views, and the columns of a table by their
      names in lower case.
    - `transaction` runs a block in a transaction, which is rolled back if the block raises an error.
    - `prepare_table` creates or alters the table for the delivery, refuses a table with rows of others, and returns its
      columns. The text is the comment that marks a new table.
    - `stage` creates a numbered table for the rows of a MERGE. `merge` replaces the rows of their keys, and returns the
      numbers of rows written and deleted.
    - `put` writes the slice's rows to a table, and returns their number. The last argument adds a column that marks
      deleted rows.
    - `mark_at` returns the comment that marks a table.
    - `privileges` reads the privileges of the login.
    """

    session: Callable[[_Connection], SqlSession]
    tables: Callable[[_Connection], SqlViewTables]
    columns: Callable[[_Connection, Unit], Mapping[str, _Column]]
    transaction: Callable[[_Connection], AbstractContextManager[None]]
    prepare_table: Callable[[_Connection, Unit, Delivery, bool, str], Mapping[str, _Column]]
    stage: Callable[[_Connection, Unit, Delivery, Mapping[str, _Column], int], StagedSlice]
    put: Callable[[_Connection, str, Delivery, Mapping[str, _Column], bool], int]
    merge: Callable[[_Connection, Unit, Delivery, Mapping[str, _Column], StagedSlice], tuple[int, int]]
    mark_at: Callable[[_Connection, Unit], str]
    privileges: PrivilegeReader


class AfterDdlDeliverer(DatabaseDeliverer[_Connection], Generic[_Connection, _Column]):
    """Delivers to a database whose tables are altered before the transaction.

    `_Column` describes a column of a table.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def _writer(self) -> DdlWriter[_Connection, _Column]:
        """The functions for this kind of database."""

    @abstractmethod
    def _take_claim(self, connection: _Connection, project: str, claim: int, where: str) -> None:
        """Mark the connection as the one that delivers the claim."""

    @abstractmethod
    def _end_other(self, where: str, project: str, claim: int) -> None:
        """End any other connection that delivers the claim. Its uncommitted changes are rolled back."""

    @property
    def _privileges(self) -> PrivilegeReader:
        return self._writer.privileges

    def _session(self, connection: _Connection) -> SqlSession:
        return self._writer.session(connection)

    def _tables(self, connection: _Connection) -> SqlViewTables:
        return self._writer.tables(connection)

    def _destination_names(self, connection: _Connection, unit: Unit) -> Mapping[str, str]:
        return stored_names(self._writer.columns(connection, unit))

    def deliver(self, unit: Unit, deliveries: Sequence[Delivery]) -> tuple[Delivered, ...]:
        """Write the slices of a claim and their records in `waterclock_deliveries`, in one transaction.

        After an error no rows have changed, but the table may have been created, or columns added to it.

        Raises E820 for a table with rows that the project did not publish, E875 for a view or a table without
        transactions, E810 (transient) for a server that does not respond, E811 (transient) for a lock, and E812, E813,
        E821 and E876.
        """
        where = f"{unit}@{', '.join(delivery.label_text for delivery in deliveries)}"
        first = deliveries[0]
        with self._open_for_writing(where) as connection:
            self._take_claim(connection, first.project, first.claim, where)
            self._prepare(connection, first.project, first.publish)
            recorded = self._record(connection).find(first.project, first.claim)
            if recorded:
                if is_behind_view(unit) and any(each.outcome is DeliveryOutcome.DELIVERED for each in recorded):
                    self._show_newest(connection, unit, first.project, first.publish)
                return recorded
            ready = [self._prepare_delivery(connection, unit, delivery, at) for at, delivery in enumerate(deliveries)]
            try:
                with self._writer.transaction(connection):
                    delivered = tuple(self._deliver_one(connection, unit, each) for each in ready)
                    fault("deliver.rows")
            except BaseException:
                if is_behind_view(unit) and not first.is_by_label:
                    with suppress(Exception):  # otherwise killing or retrying the claim drops it
                        self._drop_unrecorded(connection, unit, first.project, first.claim)
                raise
            for each in ready:
                if is_behind_view(unit) and each.into is not None:
                    update_view(self._tables(connection), unit, each.delivery, each.into)
        self._clean(unit, first)
        fault("deliver.done")
        return delivered

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Record a claim as killed, unless it has an outcome already.

        A connection that still delivers it is ended first.
        """
        self._end_other(str(unit), project, claim)
        with self._open_for_writing(str(unit)) as connection:
            self._take_claim(connection, project, claim, str(unit))
            self._prepare(connection, project, publish)
            with self._writer.transaction(connection):
                recorded = self._record(connection).kill(project, publish, claim)
            if recorded.outcome is DeliveryOutcome.KILLED and is_behind_view(unit):
                self._drop_unrecorded(connection, unit, project, claim)
            elif is_behind_view(unit):
                self._show_newest(connection, unit, project, publish)
            return recorded

    def _prepare_delivery(
        self, connection: _Connection, unit: Unit, delivery: Delivery, number: int
    ) -> ReadyDelivery[_Column]:
        """Check the destination, and create or alter the table, without a transaction."""
        newest = self._record(connection).newest(delivery.project, delivery.publish)
        if newest and not delivery.is_by_label and newest.label_text > delivery.label_text:
            return ReadyDelivery(delivery, None, {})
        if has_union_view(unit):
            prepared = prepare_union(self._union_writer(connection), unit, delivery)
            return ReadyDelivery(delivery, closed_unit(unit), prepared.closed, union=prepared)
        tables = self._tables(connection)
        require_replaceable_object(unit, delivery, tables.kind_at(unit), newest)
        if not is_behind_view(unit):
            require_unchanged_condition(unit, delivery, newest)
            there = self._writer.prepare_table(connection, unit, delivery, newest is not None, "")
            is_staged = delivery.mode is Mode.MERGE
            staged = self._writer.stage(connection, unit, delivery, there, number) if is_staged else None
            return ReadyDelivery(delivery, unit, there, staged)
        if not delivery.is_by_label:
            self._drop_unrecorded(connection, unit, delivery.project, delivery.claim)
        part, is_ours = begin_part(tables, unit, delivery)
        comment = _comment_of(delivery.project, delivery.claim)
        columns = self._writer.prepare_table(connection, part, own_table_delivery(delivery), is_ours, comment)
        return ReadyDelivery(delivery, part, columns)

    def _deliver_one(self, connection: _Connection, unit: Unit, ready: ReadyDelivery[_Column]) -> Delivered:
        """Write the rows of a delivery and its record, within the transaction."""
        delivery = ready.delivery
        if ready.into is None:
            delivered = Delivered(delivery.claim, DeliveryOutcome.OLDER, delivery.label_text, 0, 0, delivery.note)
        else:
            adapted = own_table_delivery(delivery) if is_behind_view(unit) else delivery
            delivered = self._deliver_rows(connection, ready.into, adapted, ready)
            if ready.union is not None:
                record_closed(self._union_writer(connection), unit, delivery, ready.union)
        self._record(connection).put(delivery, delivered)
        return delivered

    def _union_writer(self, connection: _Connection) -> UnionWriter[Mapping[str, _Column]]:
        def write(unit: Unit, delivery: Delivery, there: Mapping[str, _Column]) -> Delivered:
            return self._deliver_rows(connection, unit, delivery, ReadyDelivery(delivery, unit, there))

        return UnionWriter(
            tables=self._tables(connection),
            prepare=lambda unit, delivery, is_ours: self._writer.prepare_table(connection, unit, delivery, is_ours, ""),
            write=write,
            transaction=lambda: self._writer.transaction(connection),
        )

    def _deliver_rows(
        self, connection: _Connection, unit: Unit, delivery: Delivery, ready: ReadyDelivery[_Column]
    ) -> Delivered:
        session, there, deleted = self._session(connection), ready.there, 0
        if delivery.replaces_rows:
            deleted = session.execute_update(
                *replaced_rows("DELETE", unit, delivery, session.dialect, stored_names(there))
            )
        if ready.staged is None:
            rows = self._writer.put(connection, session.dialect.table_of(unit), delivery, there, False)  # noqa: FBT003
        else:
            rows, gone = self._writer.merge(connection, unit, delivery, there, ready.staged)
            deleted += gone
        return Delivered(delivery.claim, DeliveryOutcome.DELIVERED, delivery.label_text, rows, deleted, delivery.note)

    def _drop_unrecorded(self, connection: _Connection, unit: Unit, project: str, claim: int) -> None:
        """Drop the table of a claim's version unless the record of deliveries shows the claim as delivered."""
        part = part_of(unit, part_name(unit, claim=claim))
        if self._writer.mark_at(connection, part) == _comment_of(project, claim):
            recorded = self._record(connection).find(project, claim)
            if all(each.outcome is not DeliveryOutcome.DELIVERED for each in recorded):
                self._tables(connection).drop(part)

    def _show_newest(self, connection: _Connection, unit: Unit, project: str, publish: str) -> None:
        """Switch the view to the newest recorded delivery, whose runner may have ended before it did so."""
        tables, newest = self._tables(connection), self._record(connection).newest(project, publish)
        if newest is None:
            return
        version = part_of(unit, part_name(unit, claim=newest.claim))
        if _VERSION_COMMENT.fullmatch(self._writer.mark_at(connection, version)):
            parts = {"": version}
        else:
            there = find_label_tables(tables, unit, project, publish)
            parts = {label: part_of(unit, part_name(unit, label=label)) for label in there}
        columns = tables.columns(list(parts.values()))
        if parts:
            tables.show(unit, {label: (part, columns[part.path]) for label, part in parts.items()})


def _comment_of(project: str, claim: int) -> str:
    """Return the comment that marks the table of a claim's version, to find it after an incomplete delivery."""
    return f"waterclock {hashlib.sha256(project.encode()).hexdigest()[:16]} {claim}"
