"""Delivers a sealed slice to a MariaDB or MySQL database: in one transaction, once per claim.

`sql/database_delivery` describes the modes. Deliveries of a publish run one after another, under a named lock of the
server. Each delivery also takes a lock named after its claim. Killing a claim first ends the connection that has it.

In these databases, a statement that creates, alters or empties a table commits the transaction. So `destination` alters
the table before the transaction starts, and a view is switched after the commit. A later attempt that finds the claim
delivered switches the view again. REPLACE uses DELETE and INSERT: each reader sees the old rows or the new ones, never
none. MERGE uses a temporary table, so that no other unique index decides which row is replaced.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.mysql.database import MysqlDatabase, kind_at
from waterclock.connectors.mysql.destination import MysqlDestinationColumn, prepare_table, read_stored_columns
from waterclock.connectors.mysql.dialect import DIALECT, session_in, table_of
from waterclock.connectors.mysql.staging import Staged, make_staged, merge, put
from waterclock.connectors.mysql.statements import run_statement, transaction
from waterclock.connectors.mysql.versioned_views import MysqlViewTables, open_view_tables
from waterclock.connectors.sql.database_delivery import DatabaseDeliverer
from waterclock.connectors.sql.delivery_record import DELIVERIES
from waterclock.connectors.sql.destination import spelling
from waterclock.connectors.sql.parts import begin_part, labels_there, show
from waterclock.connectors.sql.replace_where import refuse_changed, replaced_rows
from waterclock.connectors.sql.sessions import SqlSession
from waterclock.connectors.sql.versioned_views import is_behind, part_name, part_of, refuse_kind, whole
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow.choices import Mode
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.mysql.statements import Connection

_NAME = "VARCHAR({}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {DELIVERIES} (project {_NAME.format(190)}, claim BIGINT NOT NULL,"
    f" publish {_NAME.format(255)}, label {_NAME.format(64)}, outcome {_NAME.format(16)}, mode {_NAME.format(64)},"
    " row_count BIGINT NOT NULL, deleted_count BIGINT NOT NULL,"
    " note LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,"
    " delivered_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), PRIMARY KEY (project, claim, label),"
    f" KEY {DELIVERIES}_newest (project, publish, outcome, label)) ENGINE = InnoDB"
)
_NO_SUCH_THREAD = 1094


@dataclass(frozen=True, slots=True)
class MysqlDeliverer(DatabaseDeliverer["Connection"]):
    """Delivers to a MariaDB or MySQL database."""

    database: MysqlDatabase

    def deliver(self, unit: Unit, deliveries: Sequence[Delivery]) -> tuple[Delivered, ...]:
        """Write the slices of a claim and their rows of `waterclock_deliveries` in one transaction.

        After an error no rows have changed, but the table may have been created, or columns added to it.

        Raises  E820 for a table with rows that the project did not publish, E875 for a table without transactions, E810
                (transient) for a server that does not respond, E811 (transient) for a lock; E812, E813, E821, E876
        """
        import pymysql

        where = f"{unit}@{', '.join(delivery.label_text for delivery in deliveries)}"
        first = deliveries[0]
        with self.database.open_for_writing(where) as connection:
            self._lock(connection, self._claim_lock(first.project, first.claim), where)
            self._prepare(connection, first.project, first.publish)
            stands = session_in(connection).record.find(first.project, first.claim)
            if stands:
                _show_what_stands(connection, unit, first, stands)
                return stands
            ready = [_made_ready(connection, unit, delivery, at) for at, delivery in enumerate(deliveries)]
            try:
                with transaction(connection):
                    delivered = tuple(_deliver_one_label(connection, unit, each) for each in ready)
                    fault("deliver.rows")
            except BaseException:
                if is_behind(unit) and not first.is_by_label:
                    with suppress(pymysql.Error):  # otherwise killing or retrying the claim drops it
                        _drop_unrecorded(connection, unit, first.project, first.claim)
                raise
            for each in ready:
                if is_behind(unit) and each.into is not None:
                    show(open_view_tables(connection), unit, each.delivery, each.into)
        self._clean(unit, first)
        fault("deliver.done")
        return delivered

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Record that a claim delivers nothing, unless it has an outcome.

        First end the connection that still delivers it.
        """
        held = self._claim_lock(project, claim)
        with self.database.open_connection(str(unit)) as connection:
            _end(connection, held)
        with self.database.open_for_writing(str(unit)) as connection:
            self._lock(connection, held, str(unit))
            self._prepare(connection, project, publish)
            with transaction(connection):
                stands = session_in(connection).record.kill(project, publish, claim)
            if stands.outcome is DeliveryOutcome.KILLED and is_behind(unit):
                _drop_unrecorded(connection, unit, project, claim)
            elif is_behind(unit):
                _show_newest(connection, unit, project, publish)
            return stands

    @property
    def _destination(self) -> MysqlDatabase:
        return self.database

    def _session(self, connection: Connection) -> SqlSession:
        return session_in(connection)

    def _prepare(self, connection: Connection, project: str, publish: str) -> None:
        turn = _name_of("publish", self.database.address["database"], project, publish)
        self._lock(connection, turn, f"{publish} of {project}")
        if not self._has_record(connection):
            run_statement(connection, _CREATE)

    def _has_record(self, connection: Connection) -> bool:
        sql = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s"
        return run_statement(connection, sql, (DELIVERIES,)).fetchone() is not None

    def _tables(self, connection: Connection) -> MysqlViewTables:
        return open_view_tables(connection)

    def _names_there(self, connection: Connection, unit: Unit) -> Mapping[str, str]:
        return spelling(read_stored_columns(connection, unit))

    def _claim_lock(self, project: str, claim: int) -> str:
        # a lock belongs to the whole server, where a project may have a database for each of its environments
        return _name_of("claim", self.database.address["database"], project, claim)

    def _lock(self, connection: Connection, name: str, where: str) -> None:
        """Take a named lock of the server, which lasts until the connection ends. Raises  E811 after the timeout."""
        row = run_statement(connection, "SELECT GET_LOCK(%s, %s)", (name, math.ceil(self.database.timeout))).fetchone()
        if row is None or row[0] != 1:
            raise WaterclockError(
                "E811",
                "another runner delivers to this database",
                where=where,
                why=f"{self.database.name}: waited {self.database.timeout:g} seconds for the lock; nothing was changed",
                fix="it is tried again; wait for the other runner, or give the connection a longer timeout",
                transient=True,
            )


def _name_of(kind: str, *parts: object) -> str:
    """Return the name of a lock for these parts. It has at most 64 characters."""
    said = "\0".join(map(str, parts))
    return f"waterclock {kind} {hashlib.sha256(said.encode()).hexdigest()[:32]}"


def _end(connection: Connection, lock: str) -> None:
    """End the connection that owns a lock, if there is one. Its uncommitted work is rolled back."""
    import pymysql

    row = run_statement(connection, "SELECT IS_USED_LOCK(%s)", (lock,)).fetchone()
    if row is None or row[0] is None:
        return
    try:
        run_statement(connection, f"KILL CONNECTION {int(row[0])}")
    except pymysql.Error as error:
        if error.args[0] != _NO_SUCH_THREAD:  # it ended by itself
            raise


@dataclass(frozen=True, slots=True)
class _Ready:
    """A delivery with its prepared table `into`, which is None if the label is older than the delivered one."""

    delivery: Delivery
    into: Unit | None = None
    there: Mapping[str, MysqlDestinationColumn] | None = None
    staged: Staged | None = None


def _made_ready(connection: Connection, unit: Unit, delivery: Delivery, number: int) -> _Ready:
    """Refuse invalid destinations, and create or alter the table. Runs outside of a transaction."""
    newest = session_in(connection).record.newest(delivery.project, delivery.publish)
    if newest and not delivery.is_by_label and newest.label_text > delivery.label_text:
        return _Ready(delivery)
    refuse_kind(unit, delivery, kind_at(connection, unit), newest)
    if not is_behind(unit):
        refuse_changed(unit, delivery, newest)
        there = prepare_table(connection, unit, delivery, is_ours=newest is not None)
        staged = make_staged(connection, delivery, there, number) if delivery.mode is Mode.MERGE else None
        return _Ready(delivery, unit, there, staged)
    if not delivery.is_by_label:
        _drop_unrecorded(connection, unit, delivery.project, delivery.claim)
    part, is_ours = begin_part(open_view_tables(connection), unit, delivery)
    comment = _comment_of(delivery.project, delivery.claim)
    return _Ready(delivery, part, prepare_table(connection, part, whole(delivery), is_ours=is_ours, comment=comment))


def _deliver_one_label(connection: Connection, unit: Unit, ready: _Ready) -> Delivered:
    """Write the rows of a delivery and its row of `waterclock_deliveries`, within the transaction."""
    delivery = ready.delivery
    if ready.into is None or ready.there is None:
        delivered = Delivered(delivery.claim, DeliveryOutcome.OLDER, delivery.label_text, 0, 0, delivery.note)
    else:
        brought = whole(delivery) if is_behind(unit) else delivery
        delivered = _deliver_rows(connection, ready.into, brought, ready.there, ready.staged)
    session_in(connection).record.put(delivery, delivered)
    return delivered


def _deliver_rows(
    connection: Connection,
    unit: Unit,
    delivery: Delivery,
    there: Mapping[str, MysqlDestinationColumn],
    staged: Staged | None,
) -> Delivered:
    deleted = 0
    if delivery.is_by_label or delivery.mode is Mode.REPLACE:
        deleted = run_statement(connection, *replaced_rows("DELETE", unit, delivery, DIALECT, spelling(there))).changed
    if staged is None:
        rows = put(connection, table_of(unit), delivery, there, with_marks=False)
    else:
        rows, gone = merge(connection, unit, delivery, there, staged)
        deleted += gone
    return Delivered(delivery.claim, DeliveryOutcome.DELIVERED, delivery.label_text, rows, deleted, delivery.note)


def _comment_of(project: str, claim: int) -> str:
    """Return the comment of a version's table. It identifies tables that a failed delivery left behind."""
    return f"waterclock {hashlib.sha256(project.encode()).hexdigest()[:16]} {claim}"


def _drop_unrecorded(connection: Connection, unit: Unit, project: str, claim: int) -> None:
    """Drop the table of a version whose delivery was not completed, if there is one."""
    tables, part = open_view_tables(connection), part_of(unit, part_name(unit, claim=claim))
    if tables.comment_at(part) == _comment_of(project, claim):
        stands = session_in(connection).record.find(project, claim)
        if all(each.outcome is not DeliveryOutcome.DELIVERED for each in stands):
            tables.drop(part)


def _show_what_stands(connection: Connection, unit: Unit, first: Delivery, stands: Sequence[Delivered]) -> None:
    if is_behind(unit) and any(each.outcome is DeliveryOutcome.DELIVERED for each in stands):
        _show_newest(connection, unit, first.project, first.publish)


def _show_newest(connection: Connection, unit: Unit, project: str, publish: str) -> None:
    """Change the view to the newest recorded delivery, in case its runner ended before it did so."""
    tables, newest = open_view_tables(connection), session_in(connection).record.newest(project, publish)
    if newest is None:
        return
    version = part_of(unit, part_name(unit, claim=newest.claim))
    if re.fullmatch(r"waterclock \w{16} \d+", tables.comment_at(version)):
        parts = {"": version}
    else:
        there = labels_there(tables, unit, project, publish)
        parts = {label: part_of(unit, part_name(unit, label=label)) for label in there}
    columns = tables.columns(list(parts.values()))
    if parts:
        tables.show(unit, {label: (part, columns[part.path]) for label, part in parts.items()})
