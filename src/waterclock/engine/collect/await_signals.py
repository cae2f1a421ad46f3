"""Queries sources for the signs of AWAIT, such as a marker file, that show that a window's rows are complete."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.connectors.interface import CompletenessCollector
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import WindowSignal
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from waterclock.engine.run_context import RunContext

_WORDS = {
    WindowSignal.MARKER: "the marker",
    WindowSignal.NEXT: "the next item",
    WindowSignal.QUERY: "the sign of the query",
}


def has_sign(work: RunContext, table: Table, window: Window) -> bool:
    """Return whether the sign that a table awaits for a window (AWAIT) has arrived. True if the table declares none."""
    if table.source is None or table.source.awaits is None:
        return True
    unit = work.connections.resolve_unit(table.source.unit)
    collector = work.connections.collector(unit.connection)
    if isinstance(collector, CompletenessCollector):
        return collector.has_sign(unit, table.source.awaits, window, table.cadence.zone)
    raise AssertionError(f"{unit} has no sign, which check refuses")


def is_wait_over(table: Table, window: Window, now: datetime) -> bool:
    """Return whether the maximum wait for a window's sign is over at `now`. It starts when the window becomes due."""
    within = None if table.source is None or table.source.awaits is None else table.source.awaits.within
    return within is not None and within.add_to(table.cadence.due_at(window), table.cadence.zone) <= now


def require_signs(work: RunContext, table: Table, windows: Iterable[Window]) -> None:
    """Raise E826 if the sign that AWAIT waits for has not arrived for one of `windows`."""
    awaits = None if table.source is None else table.source.awaits
    if awaits is None or (missing := next((each for each in windows if not has_sign(work, table, each)), None)) is None:
        return
    where = f"{table.name}@{missing.label}"
    raise WaterclockError(
        "E826",
        f"{_WORDS[awaits.sign]} has not arrived{'' if awaits.within is None else f' within {awaits.within}'}",
        where=where,
        why=f"AWAIT {awaits}: without it the rows of the window may be incomplete",
        fix=f"when it has arrived, `waterclock retry {where}`; to continue without its rows, "
        f"`waterclock skip {table.name} {missing.label} --why '…'`",
    )
