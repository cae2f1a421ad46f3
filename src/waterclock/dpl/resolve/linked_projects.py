"""Resolves collects of another project's tables, which read slices by labels, or the state at each window's end."""

from __future__ import annotations

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import ParsedBatching
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Batching
from waterclock.timelabel.label import TIMELABEL


def resolve_link(
    draft: UnresolvedTable, unit: Unit, by: ParsedBatching, errors: list[WaterclockError]
) -> ParsedBatching:
    """Return the way in which a collect reads another project's table: slices by label, or states at windows' ends.

    An invalid table name or BY is reported in `errors`.
    """
    if unit.query is None and len(unit.path.split(".")) != 2:
        errors.append(
            draft.at("FROM").refuse(
                "E211",
                f"{unit.path or 'the unit'} is not a table of another project",
                why="a table has the name that it has in that project: schema.table",
                fix=f"write it as in FROM {unit.connection}.shop.orders",
            )
        )
    if by.batching is Batching.SNAPSHOT:
        return ParsedBatching(Batching.STATE)
    if by.batching is Batching.ARRIVAL_TIME or (by.time_column or "").lower() != TIMELABEL:
        clause = "BY ARRIVAL TIME" if by.batching is Batching.ARRIVAL_TIME else f"BY DATA TIME {by.time_column}"
        errors.append(
            draft.at("BY").refuse(
                "E224",
                f"a table of another project cannot be collected {clause}",
                why="it is read at that project's ticks: as slices by their labels, or as a state",
                fix="write BY DATA TIME timelabel for a PARTITIONED table; leave BY out for a regular one",
            )
        )
    if by.lookback is not None:
        errors.append(
            draft.at("BY").refuse(
                "E224",
                "a table of another project takes no LOOKBACK",
                why="batches that are restated there are collected again automatically",
                fix="leave LOOKBACK out",
            )
        )
    return ParsedBatching(Batching.LABELS, TIMELABEL)
