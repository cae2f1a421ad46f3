"""Resolves RETAIN, KEEP VERSIONS and DEADLINE, with the defaults of the project file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.cursor import parse_at
from waterclock.dpl.syntax.statements import ParsedDeadline
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode
from waterclock.timelabel.duration import Duration, parse_duration

if TYPE_CHECKING:
    from waterclock.dpl.config.model import Config

_LEAST_KEPT = timedelta(days=7)
_SOME_DAY = datetime(2024, 3, 1, tzinfo=UTC)


def retain_of(draft: UnresolvedTable, config: Config, errors: list[WaterclockError]) -> Duration | None:
    """Return how long an APPEND table keeps its windows, None for forever; report RETAIN in tables of another mode."""
    declared = draft.statement.value("RETAIN", Duration)
    if declared is not None and draft.declared.mode is not Mode.APPEND:
        errors.append(
            draft.at("RETAIN").refuse(
                "E226",
                f"a {draft.declared.mode.name} table cannot have RETAIN",
                why="only an APPEND table consists of windows, so that old ones can be removed",
                fix="leave it out",
            )
        )
        return None
    return (
        _default(draft, config, "retain", errors)
        if declared is None and draft.declared.mode is Mode.APPEND
        else declared
    )


def keep_versions_of(draft: UnresolvedTable, config: Config, errors: list[WaterclockError]) -> Duration | None:
    """Return how long replaced versions of a table are kept, None if not declared; report less than seven days."""
    declared = draft.statement.value("KEEP VERSIONS", Duration)
    kept = _default(draft, config, "keep_versions", errors) if declared is None else declared
    if kept is None or _SOME_DAY - kept.subtract_from(_SOME_DAY, "UTC") >= _LEAST_KEPT:
        return kept
    errors.append(
        draft.at("KEEP VERSIONS").refuse(
            "E232",
            f"{draft.name} keeps its versions for {kept}, and the minimum is 7 DAYS",
            why="a reader, or a suspended runner, may still need a replaced version",
            fix="write KEEP VERSIONS 7 DAYS or more",
        )
    )
    return None


def deadline_of(draft: UnresolvedTable, config: Config, errors: list[WaterclockError]) -> Duration | None:
    """Return the deadline of a table: the longest time from a window's end until its batch is done. None if not set."""
    if draft.statement.clause("DEADLINE") is None:
        return _default(draft, config, "deadline", errors)
    deadline = draft.statement.value("DEADLINE", ParsedDeadline)
    return None if deadline is None else deadline.after


def _default(draft: UnresolvedTable, config: Config, key: str, errors: list[WaterclockError]) -> Duration | None:
    """Return a duration from the project's defaults; None if it is not set, or if it is invalid, which is reported."""
    default = config.default(draft.name, key)
    if not default:
        return None
    try:
        kept: Duration = parse_at(default[1], lambda: parse_duration(str(default[0])))
    except WaterclockError as error:
        errors.append(error)
        return None
    return kept
