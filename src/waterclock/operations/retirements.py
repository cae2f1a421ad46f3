"""Finds columns that cannot end on their declared day: they are still read, or the end was not announced in time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.batches.schema_compatibility import past_retirement_error
from waterclock.dpl.query.column_readers import readers_of
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Table
from waterclock.flow.retired_columns import Ending
from waterclock.operations.read_only_ledger import read_ledger

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.ledger.ledger import Ledger


def retirement_errors(project: Project, now: datetime, *, connect: bool = False) -> list[WaterclockError]:
    """Return the errors of columns whose end has come, each at its column.

    A ledger on a server is read only with `connect`. No ledger is written. Cost: nothing if no column has ended;
    otherwise a parse of the queries that read them, and a query of the ledger.
    """
    over = [
        (table, column, column.ending)
        for table in project.flow.tables.values()
        for column in table.columns.named
        if column.ending is not None and column.ending.at(table.cadence.zone) <= now
    ]
    if not over:
        return []
    from waterclock.engine.ledger_opening import ledger_url

    def ask(ledger: Ledger | None) -> list[WaterclockError]:
        if ledger is not None:
            ledger.declared.apply_pending_renames(project.flow)
        return [
            project.locate_error(column.place, error)
            for table, column, ends in over
            for error in _column_errors(project, table, column, ends, ledger, now)
        ]

    found = read_ledger(ledger_url(project), ask, connect=connect)
    return ask(None) if found is None else found


def _column_errors(
    project: Project, table: Table, column: Column, ends: Ending, ledger: Ledger | None, now: datetime
) -> Iterator[WaterclockError]:
    versions = ledger.reads.schemas(table.name) if ledger is not None else ()
    if refused := past_retirement_error(table, column, versions, now):
        yield refused
        return
    readers = readers_of(project.flow, table.name, column.name)
    if readers:
        yield WaterclockError(
            "E451",
            f"{column.name} of {table.name} cannot retire on {ends.day}: it is in use",
            why=f"it is read by {', '.join(map(str, readers))}; it stays until no query reads it",
            fix=f"change them to read {ends.made_as or 'another column'}, or move the day",
        )
