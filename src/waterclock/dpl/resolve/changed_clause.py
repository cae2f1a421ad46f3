"""Resolves LOOKBACK ... CHANGED: how a source reports which past windows changed."""

from __future__ import annotations

from waterclock.dpl.syntax.statements import ParsedBatching, ParsedChanged, ParsedMode, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.enums import FOLDS
from waterclock.flow.lookback_changes import Changed, ChangeReporting


def resolve_changed(
    statement: Statement, by: ParsedBatching, capabilities: Capabilities | None, errors: list[WaterclockError]
) -> Changed | None:
    """Return the CHANGED of a collect; None if it has none, or if its source does not support it, which is an error."""
    changed = by.changed
    if changed is None:
        return None
    mode = statement.value("MODE", ParsedMode)
    error = (
        _lookback_error(changed, mode)
        if mode is not None and mode.mode in FOLDS
        else _check_changed(changed, by, capabilities)
    )
    if error is not None:
        errors.append(error)
        return None
    return Changed(changed.column)


def _check_changed(
    changed: ParsedChanged, by: ParsedBatching, capabilities: Capabilities | None
) -> WaterclockError | None:
    if capabilities is None:
        return None
    if capabilities.changes is None:
        return changed.span.refuse(
            "E248",
            f"{capabilities.type} cannot report which windows changed",
            why="CHANGED needs a source that reports which earlier windows changed since they were read",
            fix=f"write LOOKBACK {by.lookback} without CHANGED, which reads all windows and updates those that differ",
        )
    if capabilities.changes is ChangeReporting.BY_COLUMN and changed.column is None:
        return changed.span.refuse(
            "E249",
            "CHANGED has no BY column",
            why=f"{capabilities.type} finds changed windows by a column with the time of a row's last change",
            fix="write it as in CHANGED BY modified_at; or leave CHANGED out, then all windows are read",
        )
    if capabilities.changes is ChangeReporting.BY_ITSELF and changed.column is not None:
        return changed.span.refuse(
            "E249",
            f"a source of type {capabilities.type} takes no column after CHANGED",
            why="it finds changed windows by the data that arrived since they were read",
            fix="write CHANGED without BY",
        )
    return None


def _lookback_error(changed: ParsedChanged, mode: ParsedMode) -> WaterclockError:
    return changed.span.refuse(
        "E248",
        f"a {mode.mode.name} table reads the whole LOOKBACK",
        why="it compares the rows of each past window with those that it has",
        fix="leave CHANGED out",
    )
