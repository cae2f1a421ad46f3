"""Removes values from the errors of a PUBLISH that computes columns, since these may mask the values."""

from __future__ import annotations

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns

# errors of Spark, a user function or a driver while it processed a row
_OF_ROWS = frozenset({"E720", "E730", "E790"})
# Spark names no value in these: they are found before a row is read, or concern a file
_OF_NO_ROW = (
    "Spark reports AMBIGUOUS",
    "Spark reports CANNOT_READ",
    "Spark reports DATATYPE_MISMATCH",
    "Spark reports DELTA",
    "Spark reports FAILED_READ",
    "Spark reports MISSING",
    "Spark reports PARSE",
    "Spark reports UNRESOLVED",
    "Spark reports UNSUPPORTED",
)
_HIDDEN = "its value is not shown, because the column list may hide it on purpose"


def without_values(columns: Columns, error: WaterclockError) -> WaterclockError:
    """Return the error of a publish with these columns without values, as it is stored, alerted and sent in events."""
    is_made = any(column.made_as for column in columns.named)
    if not is_made or error.code not in _OF_ROWS or (error.why or "").startswith(_OF_NO_ROW):
        return error
    return WaterclockError(
        error.code,
        "an expression of the column list fails for a row",
        where=error.where,
        why=f"{error.why}; {_HIDDEN}" if error.why else _HIDDEN,
        fix=error.fix or "query the table for the rows for which an expression of the list fails",
        transient=error.transient,
    )
