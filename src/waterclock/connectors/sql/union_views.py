"""Defines tables of closed and open windows under one view in a database (OPTIONS (speed true)).

The table `btc_<table>` has the delivered labels, `spd_<table>` the open ones, and the view `<table>` has both, with a
column `is_closed`. The view leaves out open rows of labels that the record of deliveries has. So a reader finds each
label once, as one statement sees one state of the database.

The record of deliveries also has a row for each open label with the slice that was written (outcome `open`), and one
for the view (outcome `view`). Their claims are negative numbers, which no batch has.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from waterclock.connectors.delivering import Delivery, DeliveryOutcome
from waterclock.connectors.sql.delivery_record import DELIVERIES
from waterclock.connectors.sql.sessions import SqlSession
from waterclock.connectors.sql.versioned_views import Columns, has_union_view
from waterclock.flow.declarations import Unit
from waterclock.flow.open_windows import IS_CLOSED, OPEN
from waterclock.timelabel.label import TIMELABEL

_CLOSED = "btc_"
_SHOWN, _VIEW = "open", "view"
CHANGING = "changing"
"""The recorded hash of a view that is being changed: a runner that finds it creates the view again."""
_WHICH = "project = {0} AND publish = {0} AND outcome = {0}"


def closed_unit(unit: Unit) -> Unit:
    """Return the table to which batches deliver: the unit itself, or the table of closed windows under its view."""
    return _part_of(unit, _CLOSED) if has_union_view(unit) else unit


def open_unit(unit: Unit) -> Unit:
    """Return the table of open windows under the unit's view."""
    return _part_of(unit, OPEN)


def _part_of(unit: Unit, prefix: str) -> Unit:
    schema, dot, name = unit.path.rpartition(".")
    return replace(unit, path=f"{schema}{dot}{prefix}{name}", options={})


def union_query(session: SqlSession, unit: Unit, delivery: Delivery, closed: Columns, opened: Columns) -> str:
    """Return the query of the view. `closed` and `opened` are the columns of the two tables, with their types."""
    dialect = session.dialect
    columns: dict[str, tuple[str, str]] = {}
    for name, kind in (*closed, *opened):
        columns.setdefault(name.lower(), (name, kind))

    def select(there: Columns, alias: str, *, is_closed: bool) -> str:
        own = {name.lower(): name for name, _ in there}
        listed = [
            f"{alias}.{dialect.quote_identifier(own[key])} AS {dialect.quote_identifier(name)}"
            if key in own
            else f"{dialect.null.format(kind)} AS {dialect.quote_identifier(name)}"
            for key, (name, kind) in columns.items()
        ]
        flag = f"{'TRUE' if is_closed else 'FALSE'} AS {dialect.quote_identifier(IS_CLOSED)}"
        return f"SELECT {', '.join(listed)}, {flag}"

    label = dialect.quote_identifier(next(name for name, _ in opened if name.lower() == TIMELABEL))
    own_label = dialect.as_record_text.format(f"s.{label}")
    delivered = " AND ".join(
        f"d.{column} = {dialect.quote_text(value)}"
        for column, value in (
            ("project", delivery.project),
            ("publish", delivery.publish),
            ("outcome", DeliveryOutcome.DELIVERED.value),
        )
    )
    return (
        f"{select(closed, 'b', is_closed=True)} FROM {dialect.table_of(closed_unit(unit))} AS b UNION ALL "
        f"{select(opened, 's', is_closed=False)} FROM {dialect.table_of(open_unit(unit))} AS s WHERE NOT EXISTS"
        f" (SELECT 1 FROM {DELIVERIES} AS d WHERE {delivered} AND d.label = {own_label})"
    )


@dataclass(frozen=True, slots=True)
class OpenLabelRecord:
    """The open labels of a publish and its view, in the record of deliveries of an open transaction."""

    session: SqlSession
    project: str
    publish: str

    def slices(self) -> dict[str, tuple[str, int]]:
        """Map the labels in the table of open windows to the slice that their rows are from, and their number."""
        rows = self.session.dialect.quote_identifier("row_count")  # a word that some databases reserve
        sql = f"SELECT label, note, {rows} FROM {DELIVERIES} WHERE {self._which}"
        found = self.session.rows_of(sql, self._values(_SHOWN))
        return {str(label): (str(note), int(count)) for label, note, count in found}

    def delivered(self, labels: Collection[str]) -> frozenset[str]:
        """Return the labels among the given ones that a batch delivered."""
        if not labels:
            return frozenset()
        places = ", ".join([self.session.dialect.place] * len(labels))
        sql = f"SELECT DISTINCT label FROM {DELIVERIES} WHERE {self._which} AND label IN ({places})"
        values = (*self._values(DeliveryOutcome.DELIVERED.value), *labels)
        return frozenset(str(label) for (label,) in self.session.rows_of(sql, values))

    def view(self) -> str:
        """Return the hash of the view's query, or `CHANGING`; empty if this publish has no view."""
        sql = f"SELECT note FROM {DELIVERIES} WHERE {self._which} ORDER BY claim"  # the newest first
        rows = self.session.rows_of(sql, self._values(_VIEW))
        return str(rows[0][0]) if rows else ""

    def put_view(self, query_hash: str) -> None:
        """Record the view's query. At every moment there is a row, also without a transaction."""
        claim = self._insert("", _VIEW, 0, query_hash)
        sql = f"DELETE FROM {DELIVERIES} WHERE {self._which} AND claim > {self.session.dialect.place}"
        self.session.execute(sql, (*self._values(_VIEW), claim))

    def put(self, label: str, slice_path: str, rows: int) -> None:
        """Record the slice of an open label, of which nothing is recorded."""
        self._insert(label, _SHOWN, rows, slice_path)

    def remove(self, label: str) -> None:
        """Remove the record of an open label, if there is one."""
        at = self.session.dialect.place
        sql = f"DELETE FROM {DELIVERIES} WHERE {self._which} AND label = {at}"
        self.session.execute(sql, (*self._values(_SHOWN), label))

    @property
    def _which(self) -> str:
        return _WHICH.format(self.session.dialect.place)

    def _values(self, outcome: str) -> tuple[str, str, str]:
        return self.project, self.publish, outcome

    def _insert(self, label: str, outcome: str, rows: int, note: str) -> int:
        claim = -time.time_ns()  # a number of its own keeps the primary key unique between publishes
        self.session.record.insert(self.project, claim, self.publish, label, outcome, "", rows, 0, note)
        return claim


def hash_query(query: str) -> str:
    """Return the hash by which the query of a view is compared with that of the last delivery."""
    return hashlib.sha256(query.encode()).hexdigest()


def remove_open_rows(session: SqlSession, unit: Unit, label: str, label_column: str) -> None:
    """Delete the rows of a label from the table of open windows."""
    dialect = session.dialect
    table = dialect.escape(dialect.table_of(open_unit(unit)))
    where = f"{dialect.escape(dialect.quote_identifier(label_column))} = {dialect.place}"
    session.execute(f"DELETE FROM {table} WHERE {where}", (label,))
