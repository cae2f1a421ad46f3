"""The record of deliveries in a destination database: the table `waterclock_deliveries`.

It has a row for each claim and label, written in the transaction that delivers the rows. It shows the outcome of each
claim, and a claim with a row is not delivered again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.sql.dialect import SqlDialect
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Mode
from waterclock.timelabel.label import TIMELABEL

DELIVERIES = "waterclock_deliveries"
INDEX = f"CREATE INDEX IF NOT EXISTS {DELIVERIES}_newest ON {DELIVERIES} (project, publish, outcome, label)"


class StatementResult(Protocol):
    """The result of an SQL statement, with the methods of a DB-API cursor."""

    @property
    def rowcount(self) -> int:
        """The number of changed rows."""

    def fetchone(self) -> Any:
        """Return the next row, None after the last."""

    def fetchall(self) -> Sequence[Any]:
        """Return all rows."""


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """Reads and writes the record of deliveries in an open transaction. `execute` runs a statement with its values."""

    execute: Callable[[str, Sequence[Any]], StatementResult]
    dialect: SqlDialect

    @property
    def place(self) -> str:
        """The placeholder of a value in a statement."""
        return self.dialect.place

    @property
    def _row_count_column(self) -> str:
        return self.dialect.quote_identifier("row_count")  # a word that some databases reserve

    @property
    def _select(self) -> str:
        return f"SELECT claim, outcome, label, {self._row_count_column}, deleted_count, note FROM {DELIVERIES}"

    @property
    def _limit_one(self) -> str:
        return self.dialect.limit.format(1)

    def find(self, project: str, claim: int) -> tuple[Delivered, ...]:
        """Return the outcomes of a claim, in the order of its labels."""
        sql = f"{self._select} WHERE project = {self.place} AND claim = {self.place} ORDER BY label"
        return tuple(map(_parse_delivered, self.execute(sql, (project, claim)).fetchall()))

    def newest(self, project: str, publish: str) -> Delivered | None:
        """Return the newest delivery of the newest label that a publish delivered; None without one."""
        at = self.place
        which = f"project = {at} AND publish = {at} AND outcome = {at}"
        sql = f"{self._select} WHERE {which} ORDER BY label DESC, claim DESC {self._limit_one}"
        row = self.execute(sql, (project, publish, DeliveryOutcome.DELIVERED.value)).fetchone()
        return _parse_delivered(row) if row else None

    def put(self, delivery: Delivery, delivered: Delivered) -> None:
        """Insert the record of a delivery with its outcome."""
        key = (delivery.project, delivery.claim, delivery.publish, delivery.label_text)
        counts = (delivered.rows, delivered.deleted, delivery.note)
        self.insert(*key, delivered.outcome.value, delivery.mode_words, *counts)

    def kill(self, project: str, publish: str, claim: int) -> Delivered:
        """Record a claim as killed, unless it has an outcome already. Return the recorded outcome."""
        recorded = self.find(project, claim)
        if recorded:
            return recorded[-1]
        self.insert(project, claim, publish, "", DeliveryOutcome.KILLED.value, "", 0, 0, "")
        return Delivered(claim, DeliveryOutcome.KILLED, "", 0)

    def find_loss(
        self, unit: Unit, table: str, project: str, publish: str, claim: int, there: Mapping[str, str]
    ) -> str | None:
        """Describe the part of a claim's delivery that is missing in the database; None if it is intact.

        `table` is the unit's table in SQL. `there` maps the names of its columns, in lower case, to their names in SQL.
        """
        newest = self.newest(project, publish)
        if newest is not None and newest.claim > claim:  # from a runner whose ledger entry is not written yet
            return None
        sql = (
            f"SELECT outcome, mode, label, {self._row_count_column} FROM {DELIVERIES}"
            f" WHERE project = {self.place} AND claim = {self.place} ORDER BY label DESC {self._limit_one}"
        )
        row = self.execute(sql, (project, claim)).fetchone()
        if row is None or row[0] == DeliveryOutcome.KILLED.value:
            return missing_record_message(claim)
        outcome, mode, label, delivered = row
        if not there:
            return f"the table {unit.path} is gone"
        if outcome == DeliveryOutcome.OLDER.value:
            return None
        if mode == Mode.APPEND.value and TIMELABEL in there:
            name, of_label = self.dialect.escape(table), self.dialect.escape(there[TIMELABEL])
            counted = f"SELECT count(*) FROM {name} WHERE {of_label} = {self.place}"
            rows = self.execute(counted, (label,)).fetchone()[0]
            return (
                None if rows == delivered else f"{unit.path} holds {rows} rows of {label}, {delivered} were delivered"
            )
        holds_some = self.execute(f"SELECT 1 FROM {self.dialect.escape(table)} {self._limit_one}", ()).fetchone()
        return None if holds_some or not delivered else f"the table {unit.path} is empty"

    def other_project(self, delivery: Delivery) -> str | None:
        """Return another project that delivered a publish of this name to the database; None if there is none.

        Projects that use REPLACE WHERE may share a destination, as each replaces only the rows of its own condition.
        Then None is returned.
        """
        at = self.place
        row = self.execute(
            f"SELECT project FROM {DELIVERIES} WHERE publish = {at} AND project <> {at} AND outcome = {at}"
            f" AND NOT (mode = {at} AND mode LIKE {at}) {self._limit_one}",
            (delivery.publish, delivery.project, DeliveryOutcome.DELIVERED.value, delivery.mode_words, "% where"),
        ).fetchone()
        return row[0] if row else None

    def labels(self, project: str, publish: str) -> list[str]:
        """Return the delivered labels, in order."""
        return [str(label) for (label,) in self._delivered("DISTINCT label", project, publish, "label")]

    def versions(self, project: str, publish: str) -> list[tuple[int, Any]]:
        """Return the claims that delivered rows, oldest first, each with its delivery time as the driver returns it."""
        rows = self._delivered("claim, delivered_at", project, publish, "delivered_at, claim")
        return [(claim, delivered) for claim, delivered in rows]

    def _delivered(self, columns: str, project: str, publish: str, order: str) -> list[Any]:
        at = self.place
        which = f"project = {at} AND publish = {at} AND outcome = {at}"
        sql = f"SELECT {columns} FROM {DELIVERIES} WHERE {which} ORDER BY {order}"
        return list(self.execute(sql, (project, publish, DeliveryOutcome.DELIVERED.value)).fetchall())

    def insert(self, *values: Any) -> None:
        """Insert a row with the values of its columns, in their order."""
        places = ", ".join([self.place] * len(values))
        columns = f"project, claim, publish, label, outcome, mode, {self._row_count_column}, deleted_count, note"
        self.execute(f"INSERT INTO {DELIVERIES} ({columns}) VALUES ({places})", values)


def missing_record_message(claim: int) -> str:
    """Return the error message for a claim without a record."""
    return f"{DELIVERIES} has no row of claim {claim}"


def _parse_delivered(row: Sequence[Any]) -> Delivered:
    claim, outcome, label, rows, deleted, note = row
    return Delivered(claim, DeliveryOutcome(outcome), label, rows, deleted, note, is_repeat=True)
