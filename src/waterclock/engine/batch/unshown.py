"""Keeps out of errors what a PUBLISH that makes its columns does not send: a value that it masks stands in none."""

from __future__ import annotations

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns

# what Spark, a function of the user's or a driver said of a row as it worked on it
_OF_ROWS = frozenset({"E720", "E730", "E790"})
# of these Spark names no value: they are found before a row is read, or are of a file
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
    """Return the error of a publish of these columns as it may stand in the ledger, in alerts and in events."""
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
