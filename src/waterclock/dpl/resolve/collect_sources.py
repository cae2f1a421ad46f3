"""Resolves the source of a COLLECT: FROM, BY, AWAIT, FOR EACH, and EXPECT parsed()."""

from __future__ import annotations

from dataclasses import replace

from waterclock.dpl.resolve.awaits import awaits_of
from waterclock.dpl.resolve.changed_clause import resolve_changed
from waterclock.dpl.resolve.changes import add_operation_column
from waterclock.dpl.resolve.connections import ValidConnections
from waterclock.dpl.resolve.entities import resolve_entity
from waterclock.dpl.resolve.for_each_clause import each_of
from waterclock.dpl.resolve.linked_projects import resolve_link
from waterclock.dpl.resolve.origins import check_origins
from waterclock.dpl.resolve.receivers import check_stream
from waterclock.dpl.resolve.rules import unread_of
from waterclock.dpl.resolve.statement_rules import list_declared_rules
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import (
    ParsedBatching,
    ParsedOptions,
    ParsedUnit,
)
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Source
from waterclock.flow.enums import LINKED, Batching


def resolve_source(draft: UnresolvedTable, systems: ValidConnections, errors: list[WaterclockError]) -> None:
    """Set the source of a COLLECT, its actions for lines that cannot be parsed, and columns that the source adds."""
    source = _build_source(draft, systems, errors)
    draft.declared = replace(draft.declared, source=source)
    if of_lines := list_declared_rules(draft.statement, of_lines=True):
        unread = unread_of(of_lines, systems.capabilities_of(source.unit) if source else None, errors)
        draft.declared = replace(draft.declared, columns=replace(draft.declared.columns, unread=unread))
    draft.declared = replace(draft.declared, columns=add_operation_column(draft))


def _build_source(draft: UnresolvedTable, systems: ValidConnections, errors: list[WaterclockError]) -> Source | None:
    statement = draft.statement
    declared = statement.value("FROM", ParsedUnit)
    if declared is None:
        if not statement.has_failed("FROM"):
            errors.append(
                draft.span.refuse("E233", f"{draft.name} has no FROM", fix="add it, as in FROM shop.public.orders")
            )
        return None
    unit = systems.unit(declared, statement.value("OPTIONS", ParsedOptions), errors, is_source=True)
    by = statement.value("BY", ParsedBatching) or ParsedBatching(Batching.SNAPSHOT)
    capabilities = systems.capabilities_of(unit)
    each = each_of(statement, unit, capabilities, systems.capabilities, errors)
    if statement.clause("FOR EACH") is not None:
        return Source(unit, Batching.EACH, each=each)
    if capabilities and capabilities.collects <= LINKED:
        by = resolve_link(draft, unit, by, errors)
    elif capabilities and capabilities.collects == {Batching.AS_OF}:
        by = resolve_entity(draft, unit, by, errors)
    elif capabilities and by.batching not in capabilities.collects:
        legal = sorted(_BATCHINGS[batching] for batching in capabilities.collects)
        errors.append(
            draft.at("BY").refuse(
                "E224",
                f"a connection of type {capabilities.type} cannot be collected {_BATCHINGS[by.batching]}",
                fix=f"collect it {' or '.join(legal)}",
            )
        )
    check_stream(draft, unit, capabilities, errors)
    errors.extend(check_origins(statement, capabilities, by_changes=by.batching is Batching.CHANGES))
    awaits = awaits_of(statement, capabilities, by.batching, errors)
    changed = resolve_changed(statement, by, capabilities, errors)
    return Source(unit, by.batching, by.time_column, by.lookback, awaits, changed)


_BATCHINGS = {
    Batching.DATA_TIME: "BY DATA TIME",
    Batching.ARRIVAL_TIME: "BY ARRIVAL TIME",
    Batching.CHANGES: "BY CHANGES",
    Batching.SNAPSHOT: "without a BY, as a snapshot",
    Batching.EACH: "FOR EACH row of a table",
    Batching.LABELS: "BY DATA TIME timelabel",
    Batching.STATE: "without a BY, as its state at the end of each window",
    Batching.AS_OF: "without a BY, as of the end of each window",
}
