"""Refuses destinations with reserved names, and publishes to the same place by two names or connections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from waterclock.dpl.resolve.connections import ValidConnections
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.errors import WaterclockError


def check_destination_names(
    drafts: Mapping[str, UnresolvedTable], systems: ValidConnections
) -> Iterator[WaterclockError]:
    """Yield errors for destinations that have reserved names, and for two publishes to the same place."""
    firsts: dict[tuple[str, str, str], UnresolvedTable] = {}
    for draft in drafts.values():
        unit = draft.declared.destination
        capabilities = systems.capabilities_of(unit) if unit is not None else None
        if unit is None or capabilities is None:
            continue
        names, options = capabilities.destination_names, systems.connections[unit.connection].options
        path = names.spelling(unit.path, options) if names.spelling else unit.path
        why = next((why for pattern, why in names.reserved.items() if re.fullmatch(pattern, path.lower())), None)
        if why is not None:
            yield draft.at("TO").refuse(
                "E211", f"{draft.name} is a reserved name", why=why, fix="publish to another name"
            )
        server = names.server(options) if names.server else None
        for written in (unit.path, *(_names_under_view(unit.path) if unit.options.get("speed") else ())):
            each = names.spelling(written, options) if names.spelling else written
            place = ("", unit.connection, each) if server is None else (capabilities.type, server, each)
            first = firsts.setdefault(place, draft)
            if first is draft:
                continue
            yield draft.at("TO").refuse(
                "E212",
                f"{draft.name} and {first.name} are the same table",
                why=f"the other PUBLISH is at {first.span.place}; the names can mean one table in {capabilities.type}",
                fix="publish to another name",
            )


def _names_under_view(path: str) -> tuple[str, str]:
    """Return the names of the tables of closed and open windows under a view."""
    schema, dot, name = path.rpartition(".")
    return f"{schema}{dot}btc_{name}", f"{schema}{dot}spd_{name}"
