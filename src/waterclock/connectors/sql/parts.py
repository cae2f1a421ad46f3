"""Creates, shows, lists and drops the tables behind the view of a publish, in a transaction of their database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Protocol

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.sql.versioned_views import (
    Columns,
    compute_retention_start,
    part_name,
    part_of,
    written_twice,
)
from waterclock.flow.declarations import Unit

Shown = tuple[Unit, Columns]


class ViewTables(Protocol):
    """Access to the tables and views of a database, in one open transaction."""

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`; empty if the name is free."""

    def labels(self, project: str, publish: str) -> Sequence[str]:
        """Return the delivered labels, in order."""

    def versions(self, project: str, publish: str) -> Sequence[tuple[int, datetime]]:
        """Return the claims that delivered, with their times, oldest first."""

    def columns(self, parts: Sequence[Unit]) -> Mapping[str, Columns]:
        """Return the columns of existing tables, by path. Cost: one statement for all."""

    def show(self, unit: Unit, parts: Mapping[str, Shown]) -> None:
        """Make the unit's view show tables, by label, "" for a version. Without tables there is no view."""

    def drop(self, part: Unit) -> None:
        """Drop a table, if it exists."""


def begin_part(tables: ViewTables, unit: Unit, delivery: Delivery) -> tuple[Unit, bool]:
    """Return the table that a delivery fills, and whether it is ours. Raises  E829 for a version that exists."""
    if delivery.is_by_label:
        part = part_of(unit, part_name(unit, label=delivery.label_text))
        return part, delivery.label_text in tables.labels(delivery.project, delivery.publish)
    part = part_of(unit, part_name(unit, claim=delivery.claim))
    if tables.kind_at(part):
        raise written_twice(unit, delivery, part.path)
    return part, True


def show(tables: ViewTables, unit: Unit, delivery: Delivery, part: Unit) -> None:
    """Make the view show the version, or all labels including this one."""
    if not delivery.is_by_label:
        tables.show(unit, {"": (part, tables.columns([part])[part.path])})
        return
    labels = {*tables.labels(delivery.project, delivery.publish), delivery.label_text}
    tables.show(unit, _there(tables, unit, sorted(labels)))


def labels_there(tables: ViewTables, unit: Unit, project: str, publish: str) -> tuple[str, ...]:
    """Return the labels that have a table behind the view."""
    return tuple(_there(tables, unit, tables.labels(project, publish)))


def drop_labels(tables: ViewTables, unit: Unit, project: str, publish: str, labels: Sequence[str]) -> int:
    """Drop the tables of labels, and make the view show the others; return the number of dropped tables."""
    there = _there(tables, unit, tables.labels(project, publish))
    gone = [label for label in labels if label in there]
    if gone:
        tables.show(unit, {label: part for label, part in there.items() if label not in gone})
        for label in gone:
            tables.drop(there[label][0])
    return len(gone)


def drop_old_versions(tables: ViewTables, unit: Unit, project: str, publish: str) -> None:
    """Drop the versions that were replaced longer ago than they are kept."""
    since = compute_retention_start(unit, datetime.now(UTC))
    for (claim, _), (_, replaced) in pairwise(tables.versions(project, publish)):
        if replaced < since:
            tables.drop(part_of(unit, part_name(unit, claim=claim)))


def _there(tables: ViewTables, unit: Unit, labels: Sequence[str]) -> dict[str, Shown]:
    parts = {label: part_of(unit, part_name(unit, label=label)) for label in labels}
    columns = tables.columns(list(parts.values()))
    return {label: (part, columns[part.path]) for label, part in parts.items() if part.path in columns}
