"""Keeps tables of a PostgreSQL database behind a view: one for each label, or one for each version."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from waterclock.connectors.behind import Writing, kept_since, part_name, part_of, query_of, written_twice
from waterclock.connectors.interface import Delivery, Outcome
from waterclock.connectors.postgres.database import quoted, table_of
from waterclock.connectors.postgres.destination import DELIVERIES
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_WRITING = Writing(quoted, lambda kind: f"NULL::{kind}", lambda label: f"'{label}'::text")
_KINDS = {"r": "table", "p": "table", "f": "table", "v": "view", "m": "view"}
_OURS = f"SELECT DISTINCT label FROM {DELIVERIES} WHERE project = %s AND publish = %s AND outcome = %s ORDER BY label"
_VERSIONS = (
    f"SELECT claim, delivered_at FROM {DELIVERIES} WHERE project = %s AND publish = %s AND outcome = %s"
    " ORDER BY delivered_at, claim"
)


def kind_at(connection: Connection, unit: Unit) -> str:
    """Return `table` or `view`, and nothing where the name is free."""
    sql = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)"
    row = connection.execute(sql, (table_of(unit),)).fetchone()
    return _KINDS.get(str(row[0]), "table") if row else ""


def begin_part(connection: Connection, unit: Unit, delivery: Delivery) -> tuple[Unit, bool]:
    """Return the table that a delivery fills, and whether it is ours already. E829 for a version that is there."""
    if delivery.is_by_label:
        part = part_of(unit, part_name(unit, label=delivery.label_text))
        return part, delivery.label_text in _labels(connection, delivery.project, delivery.publish)
    part = part_of(unit, part_name(unit, claim=delivery.claim))
    if kind_at(connection, part):
        raise written_twice(unit, delivery, part.path)
    return part, True


def show(connection: Connection, unit: Unit, delivery: Delivery, part: Unit) -> None:
    """Have the view show the version, or all labels and this one."""
    if not delivery.is_by_label:
        _make_view(connection, unit, {"": part})
        return
    labels = {*_labels(connection, delivery.project, delivery.publish), delivery.label_text}
    _make_view(connection, unit, _there(connection, unit, sorted(labels)))


def labels_there(connection: Connection, unit: Unit, project: str, publish: str) -> tuple[str, ...]:
    """Return the labels that have a table behind the view."""
    return tuple(_there(connection, unit, _labels(connection, project, publish)))


def drop_labels(connection: Connection, unit: Unit, project: str, publish: str, labels: Sequence[str]) -> int:
    """Drop the tables of labels, and have the view show the others; gives how many were dropped."""
    there = _there(connection, unit, _labels(connection, project, publish))
    gone = [label for label in labels if label in there]
    if gone:
        _make_view(connection, unit, {label: part for label, part in there.items() if label not in gone})
        for label in gone:
            connection.execute(f"DROP TABLE {table_of(there[label])}")
    return len(gone)


def drop_old_versions(connection: Connection, unit: Unit, project: str, publish: str) -> None:
    """Drop the versions that were replaced longer ago than they are kept."""
    since = kept_since(unit, datetime.now(UTC))
    rows = connection.execute(_VERSIONS, (project, publish, Outcome.DELIVERED.value)).fetchall()
    for (claim, _), (_, replaced) in pairwise(rows):
        if replaced < since:
            connection.execute(f"DROP TABLE IF EXISTS {table_of(part_of(unit, part_name(unit, claim=claim)))}")


def _labels(connection: Connection, project: str, publish: str) -> list[str]:
    return [str(row[0]) for row in connection.execute(_OURS, (project, publish, Outcome.DELIVERED.value))]


def _there(connection: Connection, unit: Unit, labels: Sequence[str]) -> dict[str, Unit]:
    parts = {label: part_of(unit, part_name(unit, label=label)) for label in labels}
    return {label: part for label, part in parts.items() if kind_at(connection, part) == "table"}


def _make_view(connection: Connection, unit: Unit, parts: dict[str, Unit]) -> None:
    found = {table_of(part): (label, _columns(connection, part)) for label, part in parts.items()}
    if not found:
        connection.execute(f"DROP VIEW IF EXISTS {table_of(unit)}")
        return
    _replace_view(connection, table_of(unit), query_of(found, _WRITING))


def _replace_view(connection: Connection, view: str, query: str) -> None:
    """Put another query under a view: in its place where its columns stay, which keeps its rights and its readers."""
    import psycopg

    try:
        with connection.transaction():
            connection.execute(f"CREATE OR REPLACE VIEW {view} AS {query}")
    except psycopg.errors.InvalidTableDefinition:  # a column went, or has another type or place
        connection.execute(f"DROP VIEW {view}")
        connection.execute(f"CREATE VIEW {view} AS {query}")


def _columns(connection: Connection, unit: Unit) -> list[tuple[str, str]]:
    rows = connection.execute(
        "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        (table_of(unit),),
    )
    return [(str(name), str(kind)) for name, kind in rows]
