"""Checks each PUBLISH that shows open windows at its destination (OPTIONS (speed true))."""

from __future__ import annotations

from collections.abc import Iterator

from waterclock.dpl.resolve.unresolved_flow import UnresolvedFlow
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedOptions
from waterclock.dpl.syntax.unsupported import unsupported_error
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode

_OPTION = "speed"
_WORD = "CONTINUOUS"


def check_open_window_publishes(flow: UnresolvedFlow) -> Iterator[WaterclockError]:
    """Yield errors for publishes of open windows whose table, mode, columns or rules do not allow it.

    A tick sends rows as they are in the table. So nothing may be computed or checked when they are sent.
    """
    for draft in flow.drafts.values():
        unit, options = draft.declared.destination, draft.statement.value("OPTIONS", ParsedOptions)
        capabilities = flow.systems.capabilities_of(unit) if unit is not None else None
        if unit is None or options is None or not unit.options.get(_OPTION):
            continue
        if capabilities is None or _OPTION not in capabilities.publish_options:
            continue  # the option is unknown, which is reported elsewhere
        table = flow.drafts.get(draft.statement.name)
        if table is not None:
            yield from _check(draft, table, options.spans[_OPTION])


def _check(draft: UnresolvedTable, table: UnresolvedTable, span: Span) -> Iterator[WaterclockError]:
    declared, statement = draft.declared, table.statement
    if table.declared.continuous is None and not (statement.clause(_WORD) or statement.has_failed(_WORD)):
        yield span.refuse(
            "E389",
            f"{draft.name} has no open windows to show",
            why=f"{table.name} has no CONTINUOUS, so its rows are known once a window is over",
            fix=f"add CONTINUOUS to {table.name}, or leave the option out",
        )
    if declared.mode is not Mode.APPEND:
        yield unsupported_error(
            f"open windows of {declared.mode.name}", span, fix="write APPEND, or leave the option out"
        )
    if declared.destination is not None and "behind" in declared.destination.options:
        yield span.refuse(
            "E832",
            "a view of open windows cannot be behind another view",
            why="it has one table of closed windows and one of open windows",
            fix="leave one of the two options out",
        )
    if declared.rules or declared.input_rules or declared.measures or declared.is_profiled:
        yield unsupported_error(
            "open windows of a PUBLISH with rules or measures", span, fix=f"declare them in {table.name}"
        )
    for column in declared.columns.named:
        if column.made_as is not None or column.is_not_null or column.rules:
            yield unsupported_error(
                f"open windows of a PUBLISH that computes or checks {column.name}", span, fix=f"do it in {table.name}"
            )
