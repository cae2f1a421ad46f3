"""The record of deliveries at a database: the table `waterclock_deliveries`, asked and written within a transaction.

It holds a row for each claim and label, written in the transaction that brings the rows. A claim that has a row is not
delivered again: it is the latch, and the way to see what stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from waterclock.connectors.delivering import Delivered, Delivery, Outcome
from waterclock.flow.choices import Mode
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

DELIVERIES = "waterclock_deliveries"
INDEX = f"CREATE INDEX IF NOT EXISTS {DELIVERIES}_newest ON {DELIVERIES} (project, publish, outcome, label)"
_COLUMNS = "project, claim, publish, label, outcome, mode, row_count, deleted_count, note"
_READ = f"SELECT claim, outcome, label, row_count, deleted_count, note FROM {DELIVERIES}"


class Answer(Protocol):
    """What a database answers to a statement."""

    def fetchone(self) -> Any:
        """Return the next row, None behind the last."""

    def fetchall(self) -> Sequence[Any]:
        """Return all rows."""


@dataclass(frozen=True, slots=True)
class Record:
    """The record in a transaction that is open: statements are carried out by `execute`; `place` stands for a value."""

    execute: Callable[[str, Sequence[Any]], Answer]
    place: str

    def find(self, project: str, claim: int) -> tuple[Delivered, ...]:
        """Return what stands under a claim, in the order of its labels."""
        sql = f"{_READ} WHERE project = {self.place} AND claim = {self.place} ORDER BY label"
        return tuple(map(_delivered, self.execute(sql, (project, claim)).fetchall()))

    def newest(self, project: str, publish: str) -> Delivered | None:
        """Return the newest delivery of the newest label that a publish delivered."""
        at = self.place
        which = f"project = {at} AND publish = {at} AND outcome = {at}"
        sql = f"{_READ} WHERE {which} ORDER BY label DESC, claim DESC LIMIT 1"
        row = self.execute(sql, (project, publish, Outcome.DELIVERED.value)).fetchone()
        return _delivered(row) if row else None

    def put(self, delivery: Delivery, delivered: Delivered) -> None:
        """Write what became of a delivery."""
        key = (delivery.project, delivery.claim, delivery.publish, delivery.label_text)
        counts = (delivered.rows, delivered.deleted, delivery.note)
        self._insert(*key, delivered.outcome.value, delivery.mode_words, *counts)

    def kill(self, project: str, publish: str, claim: int) -> Delivered:
        """Take the claim's place by a row without data, unless it was delivered; give which of both stands."""
        stands = self.find(project, claim)
        if stands:
            return stands[-1]
        self._insert(project, claim, publish, "", Outcome.KILLED.value, "", 0, 0, "")
        return Delivered(claim, Outcome.KILLED, "", 0)

    def lost(
        self, unit: Unit, table: str, project: str, publish: str, claim: int, there: Mapping[str, str]
    ) -> str | None:
        """Say what of a claim's delivery is not there any more; None where it stands.

        `table` is the unit's as SQL has it, `there` are its columns: their SQL by their names in lower case.
        """
        newest = self.newest(project, publish)
        if newest is not None and newest.claim > claim:  # of a runner that has not recorded it yet
            return None
        sql = (
            f"SELECT outcome, mode, label, row_count FROM {DELIVERIES}"
            f" WHERE project = {self.place} AND claim = {self.place} ORDER BY label DESC LIMIT 1"
        )
        row = self.execute(sql, (project, claim)).fetchone()
        if row is None or row[0] == Outcome.KILLED.value:
            return no_record(claim)
        outcome, mode, label, brought = row
        if not there:
            return f"the table {unit.path} is gone"
        if outcome == Outcome.OLDER.value:
            return None
        if mode == Mode.APPEND.value and TIMELABEL in there:
            counted = f"SELECT count(*) FROM {self._said(table)} WHERE {self._said(there[TIMELABEL])} = {self.place}"
            rows = self.execute(counted, (label,)).fetchone()[0]
            return None if rows == brought else f"{unit.path} holds {rows} rows of {label}, {brought} were delivered"
        holds_some = self.execute(f"SELECT 1 FROM {self._said(table)} LIMIT 1", ()).fetchone()
        return None if holds_some or not brought else f"the table {unit.path} is empty"

    def other_project(self, delivery: Delivery) -> str | None:
        """Return another project that delivers there; two may each replace rows of their own condition."""
        at = self.place
        row = self.execute(
            f"SELECT project FROM {DELIVERIES} WHERE publish = {at} AND project <> {at} AND outcome = {at}"
            f" AND NOT (mode = {at} AND mode LIKE {at}) LIMIT 1",
            (delivery.publish, delivery.project, Outcome.DELIVERED.value, delivery.mode_words, "% where"),
        ).fetchone()
        return row[0] if row else None

    def labels(self, project: str, publish: str) -> list[str]:
        """Return the labels that were delivered, in order."""
        at = self.place
        which = f"project = {at} AND publish = {at} AND outcome = {at}"
        sql = f"SELECT DISTINCT label FROM {DELIVERIES} WHERE {which} ORDER BY label"
        rows = self.execute(sql, (project, publish, Outcome.DELIVERED.value)).fetchall()
        return [str(label) for (label,) in rows]

    def versions(self, project: str, publish: str) -> list[tuple[int, Any]]:
        """Return the claims that delivered, and when, as the database says it, oldest first."""
        at = self.place
        which = f"project = {at} AND publish = {at} AND outcome = {at}"
        sql = f"SELECT claim, delivered_at FROM {DELIVERIES} WHERE {which} ORDER BY delivered_at, claim"
        rows = self.execute(sql, (project, publish, Outcome.DELIVERED.value)).fetchall()
        return [(claim, delivered) for claim, delivered in rows]

    def _said(self, name: str) -> str:
        """Return a name as it stands in a statement with values: some drivers take a percent sign for a place."""
        return name.replace("%", "%%") if self.place == "%s" else name

    def _insert(self, *values: Any) -> None:
        places = ", ".join([self.place] * len(values))
        self.execute(f"INSERT INTO {DELIVERIES} ({_COLUMNS}) VALUES ({places})", values)


def no_record(claim: int) -> str:
    """Say that a claim was never delivered."""
    return f"{DELIVERIES} has no row of claim {claim}"


def _delivered(row: Sequence[Any]) -> Delivered:
    claim, outcome, label, rows, deleted, note = row
    return Delivered(claim, Outcome(outcome), label, rows, deleted, note, is_repeat=True)
