"""Tables behind the view of a publish, within a transaction of their database: begun, shown, listed and dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Protocol

from waterclock.connectors.behind import Columns, kept_since, part_name, part_of, written_twice
from waterclock.connectors.delivering import Delivery
from waterclock.flow.declarations import Unit

Shown = tuple[Unit, Columns]


class Tables(Protocol):
    """What a database is asked about tables and views, in one transaction that it has opened."""

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, and nothing where the name is free."""

    def labels(self, project: str, publish: str) -> Sequence[str]:
        """Return the labels that were delivered, in order."""

    def versions(self, project: str, publish: str) -> Sequence[tuple[int, datetime]]:
        """Return the claims that delivered, and when, oldest first."""

    def columns(self, parts: Sequence[Unit]) -> Mapping[str, Columns]:
        """Return the columns of tables by their paths, of those that are there. Cost: one statement for all."""

    def show(self, unit: Unit, parts: Mapping[str, Shown]) -> None:
        """Have the unit's view show tables by their labels, "" for a version. Of none there is no view."""

    def drop(self, part: Unit) -> None:
        """Drop a table, if it is there."""


def begin_part(tables: Tables, unit: Unit, delivery: Delivery) -> tuple[Unit, bool]:
    """Return the table that a delivery fills, and whether it is ours already. E829 for a version that is there."""
    if delivery.is_by_label:
        part = part_of(unit, part_name(unit, label=delivery.label_text))
        return part, delivery.label_text in tables.labels(delivery.project, delivery.publish)
    part = part_of(unit, part_name(unit, claim=delivery.claim))
    if tables.kind_at(part):
        raise written_twice(unit, delivery, part.path)
    return part, True


def show(tables: Tables, unit: Unit, delivery: Delivery, part: Unit) -> None:
    """Have the view show the version, or all labels and this one."""
    if not delivery.is_by_label:
        tables.show(unit, {"": (part, tables.columns([part])[part.path])})
        return
    labels = {*tables.labels(delivery.project, delivery.publish), delivery.label_text}
    tables.show(unit, _there(tables, unit, sorted(labels)))


def labels_there(tables: Tables, unit: Unit, project: str, publish: str) -> tuple[str, ...]:
    """Return the labels that have a table behind the view."""
    return tuple(_there(tables, unit, tables.labels(project, publish)))


def drop_labels(tables: Tables, unit: Unit, project: str, publish: str, labels: Sequence[str]) -> int:
    """Drop the tables of labels, and have the view show the others; gives how many were dropped."""
    there = _there(tables, unit, tables.labels(project, publish))
    gone = [label for label in labels if label in there]
    if gone:
        tables.show(unit, {label: part for label, part in there.items() if label not in gone})
        for label in gone:
            tables.drop(there[label][0])
    return len(gone)


def drop_old_versions(tables: Tables, unit: Unit, project: str, publish: str) -> None:
    """Drop the versions that were replaced longer ago than they are kept."""
    since = kept_since(unit, datetime.now(UTC))
    for (claim, _), (_, replaced) in pairwise(tables.versions(project, publish)):
        if replaced < since:
            tables.drop(part_of(unit, part_name(unit, claim=claim)))


def _there(tables: Tables, unit: Unit, labels: Sequence[str]) -> dict[str, Shown]:
    parts = {label: part_of(unit, part_name(unit, label=label)) for label in labels}
    columns = tables.columns(list(parts.values()))
    return {label: (part, columns[part.path]) for label, part in parts.items() if part.path in columns}
