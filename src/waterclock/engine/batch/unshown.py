"""Removes values from the errors of a PUBLISH that computes columns, since these may mask the values."""

from __future__ import annotations

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns

# errors of Spark, a user function or a driver while it processed a row
_OF_ROWS = frozenset({"E720", "E730", "E790"})
# Spark names no value in these: they are found before a row is read, or concern a file
_OF_NO_ROW = (
    "Spark says AMBIGUOUS",
    "Spark says CANNOT_READ",
    "Spark says DATATYPE_MISMATCH",
    "Spark says DELTA",
    "Spark says FAILED_READ",
    "Spark says MISSING",
    "Spark says PARSE",
    "Spark says UNRESOLVED",
    "Spark says UNSUPPORTED",
)
_HIDDEN = "its value is not shown, as the list may be there to hide it"


def without_values(columns: Columns, error: WaterclockError) -> WaterclockError:
    """Return the error of a publish with these columns without values, as it is stored, alerted and sent in events."""
    is_made = any(column.made_as for column in columns.named)
    if not is_made or error.code not in _OF_ROWS or (error.why or "").startswith(_OF_NO_ROW):
        return error
    return WaterclockError(
        error.code,
        "a row cannot be made into what the list sends",
        where=error.where,
        why=f"{error.why}; {_HIDDEN}" if error.why else _HIDDEN,
        fix=error.fix or "query the table for rows of which an expression of the list fails",
        transient=error.transient,
    )
