"""Checks the declarations before a rebuild of all tables, and afterwards that no label is missing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from waterclock.engine.maintenance.repair import missing_column_error
from waterclock.engine.maintenance.rewindowing import find_obstacle_to_new_windows
from waterclock.engine.maintenance.second_set import Cut
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_listener import GroupReport
from waterclock.engine.run_outcome import RunOutcome
from waterclock.errors import WaterclockError, raise_all
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode
from waterclock.ledger.read.signatures import Difference
from waterclock.ledger.rebuild_errors import incomplete_tables_error, uncuttable_rows_error, unsupported_change_error
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import label_of


def require_rebuildable_declarations(work: RunContext, cut: Cut) -> None:
    """Raise E431 if rows cannot be cut into new windows, and E432 for other declarations that no rebuild applies."""
    errors = [
        error
        for name, changes in work.ledger.maintenance.differences(work.flow).items()
        if (error := _find_refusal(work, cut, work.flow.tables[name], changes)) is not None
    ]
    raise_all(errors)


def _find_refusal(work: RunContext, cut: Cut, table: Table, changes: Sequence[Difference]) -> WaterclockError | None:
    parts, where = {what for what, _, _ in changes}, str(table.place)
    is_cut = bool(parts & {"cadence", "zone"})
    if "kind" in parts:
        return unsupported_change_error(
            table.name, changes, where, why="its rows were made in another way, and stay as they are"
        )
    if table.kind is Kind.PUBLISH and (is_cut or "type" in parts) and table.mode is not Mode.REPLACE:
        why = "its destination keeps the rows delivered for the old labels"
        return unsupported_change_error(table.name, changes, where, why=why, is_publish=True)
    if table.kind is Kind.COLLECT and is_cut:
        reason = find_obstacle_to_new_windows(work, table, cut.collected.get(table.name, ()))
        return None if reason is None else uncuttable_rows_error(table.name, changes, where, why=reason)
    return missing_column_error(work, table, (each.result for each in cut.collected.get(table.name, ())), changes)


def require_complete_rebuild(work: RunContext, cut: Cut, other: RunContext, outcome: RunOutcome) -> None:
    """Raise E433 if the rebuilt tables (of `other`) are missing a current label: its batch failed or did not run."""
    for report in outcome.failed:
        _require_no_new_failure(work, report)
    for error in outcome.unsettled:  # neither made nor failed: its disk is full, or its store is unavailable
        raise _incomplete_error(error.where or "a batch", error.render(), 1) from error
    for name in cut.transforms:
        if cut.is_redeclared(name):
            continue
        dropped = work.ledger.reads.snapshot(work.flow, tables=[name]).of(name).dropped_before
        made = {each.result.label for each in other.ledger.maintenance.current_of(name)}
        missing = [
            each.result.label
            for each in cut.held[name]
            if each.result.label not in made and (dropped is None or each.result.label >= dropped)
        ]
        if missing:
            raise _incomplete_error(f"{name}@{label_of(missing[0])}", _why_not(outcome, name, missing[0]), len(missing))


def _require_no_new_failure(work: RunContext, report: GroupReport) -> None:
    """Raise E433 for a failed batch that is done in the live tables. A batch that failed there too is no error."""
    name = report.group.table
    covered = work.ledger.reads.covered_windows(name)
    spans = IntervalSet.from_windows([batch.window for batch in report.group.batches])
    if spans - covered != spans and report.error is not None:
        where = f"{name}@{label_of(report.group.batches[0].label)}"
        raise _incomplete_error(where, report.error.render(), 1) from report.error


def _why_not(outcome: RunOutcome, name: str, label: datetime) -> str:
    batches = outcome.plan.batches if outcome.plan else ()
    for batch in batches:
        if (batch.table, batch.label) == (name, label):
            return f"{batch.status}: {batch.reason}"
    return "the current flow does not make it"


def _incomplete_error(where: str, why: str, count: int) -> WaterclockError:
    return incomplete_tables_error(f"{where}, and {count - 1} more" if count > 1 else where, why)
