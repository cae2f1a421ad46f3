"""Creates, lists and drops the tables behind a publish's view, and updates the view, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.sql.versioned_views import (
    compute_retention_start,
    existing_version_error,
    part_name,
    part_of,
)
from waterclock.connectors.sql.view_tables import SqlViewTables, ViewPart
from waterclock.flow.declarations import Unit


def begin_part(tables: SqlViewTables, unit: Unit, delivery: Delivery) -> tuple[Unit, bool]:
    """Return the table behind the view to which a delivery writes, and whether this publish may replace its rows.

    Raises E829 if the table of a new version exists already.
    """
    if delivery.is_by_label:
        part = part_of(unit, part_name(unit, label=delivery.label_text))
        return part, delivery.label_text in tables.labels(delivery.project, delivery.publish)
    part = part_of(unit, part_name(unit, claim=delivery.claim))
    if tables.kind_at(part):
        raise existing_version_error(unit, delivery, part.path)
    return part, True


def update_view(tables: SqlViewTables, unit: Unit, delivery: Delivery, part: Unit) -> None:
    """Update the view to show the version that was delivered, or all labels including the delivered one."""
    if not delivery.is_by_label:
        tables.show(unit, {"": (part, tables.columns([part])[part.path])})
        return
    labels = {*tables.labels(delivery.project, delivery.publish), delivery.label_text}
    tables.show(unit, _find_parts(tables, unit, sorted(labels)))


def find_label_tables(tables: SqlViewTables, unit: Unit, project: str, publish: str) -> tuple[str, ...]:
    """Return the delivered labels that have a separate table behind the view."""
    return tuple(_find_parts(tables, unit, tables.labels(project, publish)))


def drop_labels(tables: SqlViewTables, unit: Unit, project: str, publish: str, labels: Sequence[str]) -> int:
    """Drop the tables of labels and remove them from the view; return the number of dropped tables."""
    there = _find_parts(tables, unit, tables.labels(project, publish))
    gone = [label for label in labels if label in there]
    if gone:
        tables.show(unit, {label: part for label, part in there.items() if label not in gone})
        for label in gone:
            tables.drop(there[label][0])
    return len(gone)


def drop_old_versions(tables: SqlViewTables, unit: Unit, project: str, publish: str) -> None:
    """Drop the tables of versions that were replaced longer ago than the option `keep`.

    The version that the view shows is kept, whatever times the server recorded: its clock may have been set back.
    """
    since, newest = compute_retention_start(unit, datetime.now(UTC)), tables.session.record.newest(project, publish)
    for (claim, _), (_, replaced) in pairwise(tables.versions(project, publish)):
        if replaced < since and not (newest and newest.claim == claim):
            tables.drop(part_of(unit, part_name(unit, claim=claim)))


def _find_parts(tables: SqlViewTables, unit: Unit, labels: Sequence[str]) -> dict[str, ViewPart]:
    parts = {label: part_of(unit, part_name(unit, label=label)) for label in labels}
    columns = tables.columns(list(parts.values()))
    return {label: (part, columns[part.path]) for label, part in parts.items() if part.path in columns}
