"""Converts an exception of a batch's step into the error of the batch, with its place."""

from __future__ import annotations

from waterclock.engine.batch.error_redaction import without_values
from waterclock.engine.batch.failed_expressions import with_expression
from waterclock.engine.batch.rule_errors import rule_error
from waterclock.engine.collect.collect import explain
from waterclock.engine.damage import as_damage
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import add_batch_place, ended_jvm_error, to_error
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.storage.slices.conform import row_error


def batch_error(work: RunContext, table: Table, raised: Exception, where: str) -> WaterclockError:
    """Convert an exception of a batch into a `WaterclockError`. `where` is the table and label of the batch."""
    if work.sessions.has_ended():
        return ended_jvm_error(raised, where=where)
    raised = as_damage(work, raised) or raised
    if isinstance(raised, WaterclockError):
        return add_batch_place(raised, table.name, where, table.place)
    if (of_rule := rule_error(table, raised)) is not None:
        return of_rule
    cause = row_error(raised, table=table.name) or explain(work, table, raised)
    error = with_expression(to_error(cause, where=where), cause, work.project, table)
    return add_batch_place(without_values(table.columns, error), table.name, where, table.place)
