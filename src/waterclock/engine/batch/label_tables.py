"""Finds and drops label tables: tables at a destination that each have the rows of one label, behind a view."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from waterclock.connectors.delivering import LabelTableDestination
from waterclock.connectors.sql.versioned_views import is_behind_view
from waterclock.engine.batch.destinations import unit_of
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Table
from waterclock.timelabel.label import label_of


def find_dropped_labels(work: RunContext, table: Table, before: datetime) -> tuple[str, ...]:
    """Return the labels before an instant that still have a label table at the destination of a publish.

    The newest label is left out: the next delivery checks that its rows are there. Empty for other tables, or if the
    project does not publish.
    """
    keeper = _label_table_keeper(work, table)
    there = keeper.labels(unit_of(work, table), work.flow.project, table.name) if keeper else ()
    return tuple(label for label in there[:-1] if label < label_of(before))


def drop_label_tables(work: RunContext, table: Table, labels: Sequence[str]) -> None:
    """Drop the label tables of a publish at its destination, in one transaction."""
    keeper = _label_table_keeper(work, table)
    if keeper is not None:
        keeper.drop(unit_of(work, table), work.flow.project, table.name, labels)


def _label_table_keeper(work: RunContext, table: Table) -> LabelTableDestination | None:
    unit = table.destination
    if unit is None or not is_behind_view(unit) or not table.is_partitioned or not work.project.delivers(table):
        return None
    found = work.connections.deliverer(unit.connection)
    return found if isinstance(found, LabelTableDestination) else None
