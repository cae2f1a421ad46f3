"""Keeps tables of a SQLite database behind a view: one for each label, or one for each version."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

from waterclock.connectors.behind import Writing, kept_since, part_name, part_of, query_of, written_twice
from waterclock.connectors.interface import Delivery, Outcome
from waterclock.connectors.sqlite.database import quoted, table_of
from waterclock.connectors.sqlite.destination import DELIVERIES
from waterclock.flow.declarations import Unit

_WRITING = Writing(quoted, lambda _: "NULL", lambda label: f"'{label}'")
_OURS = f"SELECT DISTINCT label FROM {DELIVERIES} WHERE project = ? AND publish = ? AND outcome = ? ORDER BY label"
_VERSIONS = (
    f"SELECT claim, delivered_at FROM {DELIVERIES} WHERE project = ? AND publish = ? AND outcome = ?"
    " ORDER BY delivered_at, claim"
)


def kind_at(connection: sqlite3.Connection, unit: Unit) -> str:
    """Return `table` or `view`, and nothing where the name is free."""
    *schema, name = unit.path.split(".")
    master = f"{quoted(schema[0])}.sqlite_master" if schema else "sqlite_master"
    row = connection.execute(f"SELECT type FROM {master} WHERE lower(name) = lower(?)", (name,)).fetchone()
    return str(row[0]) if row else ""


def begin_part(connection: sqlite3.Connection, unit: Unit, delivery: Delivery) -> tuple[Unit, bool]:
    """Return the table that a delivery fills, and whether it is ours already. E829 for a version that is there."""
    if delivery.is_by_label:
        part = part_of(unit, part_name(unit, label=delivery.label_text))
        return part, delivery.label_text in _labels(connection, delivery.project, delivery.publish)
    part = part_of(unit, part_name(unit, claim=delivery.claim))
    if kind_at(connection, part):
        raise written_twice(unit, delivery, part.path)
    return part, True


def show(connection: sqlite3.Connection, unit: Unit, delivery: Delivery, part: Unit) -> None:
    """Have the view show the version, or all labels and this one."""
    if not delivery.is_by_label:
        _make_view(connection, unit, {"": part})
        return
    labels = {*_labels(connection, delivery.project, delivery.publish), delivery.label_text}
    _make_view(connection, unit, _there(connection, unit, sorted(labels)))


def labels_there(connection: sqlite3.Connection, unit: Unit, project: str, publish: str) -> tuple[str, ...]:
    """Return the labels that have a table behind the view."""
    return tuple(_there(connection, unit, _labels(connection, project, publish)))


def drop_labels(connection: sqlite3.Connection, unit: Unit, project: str, publish: str, labels: Sequence[str]) -> int:
    """Drop the tables of labels, and have the view show the others; gives how many were dropped."""
    there = _there(connection, unit, _labels(connection, project, publish))
    gone = [label for label in labels if label in there]
    if gone:
        _make_view(connection, unit, {label: part for label, part in there.items() if label not in gone})
        for label in gone:
            connection.execute(f"DROP TABLE {table_of(there[label])}")
    return len(gone)


def drop_old_versions(connection: sqlite3.Connection, unit: Unit, project: str, publish: str) -> None:
    """Drop the versions that were replaced longer ago than they are kept."""
    since = kept_since(unit, datetime.now(UTC)).strftime("%Y-%m-%d %H:%M:%S")
    rows = connection.execute(_VERSIONS, (project, publish, Outcome.DELIVERED.value)).fetchall()
    for (claim, _), (_, replaced) in pairwise(rows):
        if replaced < since:
            connection.execute(f"DROP TABLE IF EXISTS {table_of(part_of(unit, part_name(unit, claim=claim)))}")


def _labels(connection: sqlite3.Connection, project: str, publish: str) -> list[str]:
    return [str(row[0]) for row in connection.execute(_OURS, (project, publish, Outcome.DELIVERED.value))]


def _there(connection: sqlite3.Connection, unit: Unit, labels: Sequence[str]) -> dict[str, Unit]:
    parts = {label: part_of(unit, part_name(unit, label=label)) for label in labels}
    return {label: part for label, part in parts.items() if kind_at(connection, part) == "table"}


def _make_view(connection: sqlite3.Connection, unit: Unit, parts: dict[str, Unit]) -> None:
    found = {table_of(part): (label, _columns(connection, part)) for label, part in parts.items()}
    connection.execute(f"DROP VIEW IF EXISTS {table_of(unit)}")
    if found:
        connection.execute(f"CREATE VIEW {table_of(unit)} AS {query_of(found, _WRITING)}")


def _columns(connection: sqlite3.Connection, unit: Unit) -> list[tuple[str, str]]:
    *schema, name = unit.path.split(".")
    prefix = f"{quoted(schema[0])}." if schema else ""
    return [(str(row[1]), str(row[2])) for row in connection.execute(f"PRAGMA {prefix}table_xinfo({quoted(name)})")]
