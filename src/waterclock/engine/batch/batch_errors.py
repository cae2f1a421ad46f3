"""Converts an exception that a batch raised into an error that names the batch and its statement."""

from __future__ import annotations

from waterclock.engine.batch.failed_expressions import add_failed_expression
from waterclock.engine.batch.rule_errors import rule_error
from waterclock.engine.collect.collect import explain_source_error
from waterclock.engine.damage import damage_error, removed_state_error
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import add_batch_place, ended_jvm_error, to_error
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns, Table
from waterclock.storage.slices.column_casts import row_error

# codes of errors that Spark, a user function or a driver raises for a row
_OF_ROWS = frozenset({"E720", "E730", "E790"})
# These errors contain no value of a row: they are raised before a row is read, or concern a file.
_OF_NO_ROW = (
    "the JVM could not store",
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


def batch_error(work: RunContext, table: Table, raised: Exception, where: str) -> WaterclockError:
    """Convert an exception of a batch into a `WaterclockError`. `where` is the table and label of the batch."""
    if work.sessions.has_ended():
        return ended_jvm_error(raised, where=where)
    try:
        return _convert(work, table, raised, where)
    except Exception:
        if work.sessions.has_ended():  # while its exception was read
            return ended_jvm_error(raised, where=where)
        raise


def _convert(work: RunContext, table: Table, raised: Exception, where: str) -> WaterclockError:
    raised = removed_state_error(work, raised) or damage_error(work, raised) or raised
    if isinstance(raised, WaterclockError):
        return add_batch_place(raised, table.name, where, table.place)
    if (of_rule := rule_error(table, raised)) is not None:
        return of_rule
    cause = row_error(raised, table=table.name) or explain_source_error(work, table, raised)
    error = add_failed_expression(to_error(cause, where=where), cause, work.project, table)
    return add_batch_place(hide_values(table.columns, error), table.name, where, table.place)


def hide_values(columns: Columns, error: WaterclockError) -> WaterclockError:
    """Return an error without the values of rows, which the column list of a publish may hide on purpose.

    The returned error is the one that is stored in the ledger and sent in alerts and events.
    """
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
