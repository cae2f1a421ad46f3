"""Refuses destinations and published columns with reserved names, and publishes to the same place by two names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from waterclock.dpl.resolve.connections import ValidConnections
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import ParsedColumnList
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import DestinationNames


def check_destination_names(
    drafts: Mapping[str, UnresolvedTable], systems: ValidConnections
) -> Iterator[WaterclockError]:
    """Yield errors for destinations and columns that have reserved names, and for two publishes to the same place."""
    firsts: dict[tuple[str, str], UnresolvedTable] = {}
    for draft in drafts.values():
        unit = draft.declared.destination
        capabilities = systems.of(unit) if unit is not None else None
        if unit is None or capabilities is None:
            continue
        names, options = capabilities.destination_names, systems.connections[unit.connection].options
        path = names.spelling(unit.path, options) if names.spelling else unit.path
        why = next((why for pattern, why in names.reserved.items() if re.fullmatch(pattern, path.lower())), None)
        if why is not None:
            yield draft.at("TO").refuse(
                "E211", f"{draft.name} is a reserved name", why=why, fix="publish to another name"
            )
        first = firsts.setdefault((unit.connection, path), draft)
        if first is not draft:
            yield draft.at("TO").refuse(
                "E212",
                f"{draft.name} and {first.name} are the same table",
                why=f"the other PUBLISH is at {first.span.place}; {capabilities.type} does not distinguish the names",
                fix="publish to another name",
            )
        yield from _check_columns(draft, drafts.get(draft.statement.name), names)


def _check_columns(
    draft: UnresolvedTable, table: UnresolvedTable | None, names: DestinationNames
) -> Iterator[WaterclockError]:
    listed = draft.statement.value("COLUMNS", ParsedColumnList)
    spans = {column.name: column.span for column in listed.columns if column.retires is None} if listed else {}
    if table is not None and (listed is None or listed.is_open):
        spans = {column.name: draft.at("TO") for column in table.declared.columns.named} | spans
    for name, span in spans.items():
        if name.lower() in names.columns:
            fix = f"rename it, as in another_name AS ({name})"
            yield span.refuse("E211", f"{name} is a reserved name", why="deliveries mark rows by it", fix=fix)
