"""Tells which columns cannot end on their day: they are read, or nobody was told in time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.batches.compatible import retirement_of
from waterclock.batches.schemas import Side
from waterclock.dpl.query.column_readers import readers_of
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Table
from waterclock.flow.endings import Ending

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.ledger.ledger import Ledger


def retirement_errors(project: Project, now: datetime) -> list[WaterclockError]:
    """Return what is wrong with columns whose day has come, each at its column.

    Cost: nothing where none has; else a parse of the queries that read them, and a question to the ledger
    """
    over = [
        (table, column, column.ends)
        for table in project.flow.tables.values()
        for column in table.columns.named
        if column.ends is not None and column.ends.at(table.cadence.zone) <= now
    ]
    if not over:
        return []
    from waterclock.engine.ledger_opening import ledger_url
    from waterclock.ledger.ledger import Ledger

    ledger = Ledger.open(ledger_url(project), create=False)
    try:
        return [
            _placed(project, column, error)
            for table, column, ends in over
            for error in _of(project, table, column, ends, ledger)
        ]
    finally:
        if ledger is not None:
            ledger.close()


def _of(
    project: Project, table: Table, column: Column, ends: Ending, ledger: Ledger | None
) -> Iterator[WaterclockError]:
    versions = ledger.reads.schemas(table.name) if ledger is not None else ()
    told = any(retirement_of(each.columns, column.name) == ends.day for each in versions if each.side is Side.TABLE)
    if not told:
        yield WaterclockError(
            "E452",
            f"{column.name} of {table.name} would have ended on {ends.day}, in the past",
            why="no batch before that day has told that it ends, so nobody had time to move on",
            fix="name a day to come",
        )
        return
    readers = readers_of(project.flow, table.name, column.name)
    if readers:
        yield WaterclockError(
            "E451",
            f"{column.name} of {table.name} cannot end on {ends.day}: it is read",
            why=f"by {', '.join(map(str, readers))}; until none reads it, it lives on",
            fix=f"have them read {ends.made_as or 'something else'}, or move the day",
        )


def _placed(project: Project, column: Column, error: WaterclockError) -> WaterclockError:
    text = project.sources.get(column.place.file)
    error.where = str(column.place)
    if text is not None:
        source = SourceText(column.place.file, text)
        return source.span(source.offset(column.place)).placing(error)
    return error
