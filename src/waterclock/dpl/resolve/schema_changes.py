"""Checks ON SCHEMA CHANGE against the column list of its statement."""

from __future__ import annotations

from waterclock.dpl.syntax.statements import Statement
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns
from waterclock.flow.schema_changes import OnSchemaChange


def refused_change(statement: Statement, columns: Columns) -> WaterclockError | None:
    """Return an error for an ON SCHEMA CHANGE that the column list rules out."""
    clause = statement.clause("ON SCHEMA CHANGE")
    if clause is None or columns.is_open or statement.has_failed("COLUMNS"):
        return None
    if columns.on_change is OnSchemaChange.ADD:
        return clause.span.refuse(
            "E291",
            f"{statement.name} has ADD, and a closed column list",
            why="a closed list leaves out columns that it does not name, so that a new column never leaks",
            fix="end the list with *, or write IGNORE",
        )
    if columns.on_change is OnSchemaChange.TEXT and all(column.type for column in columns.named):
        return clause.span.refuse(
            "E291",
            f"{statement.name} has TEXT, and declares the types of all columns",
            why="TEXT reads columns without a declared type as STRING; this list is closed, and each column has a type",
            fix="leave types out, end the list with *, or write IGNORE",
        )
    return None
