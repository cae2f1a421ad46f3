"""Computes the grid of an opened project: its span of time, and the states of all labels in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from waterclock.batches.audit_records import StoredStates
from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.flow.declarations import Table
from waterclock.operations.grid import Grid, bounds, make_grid, newest_span
from waterclock.operations.project_opening import OpenedProject
from waterclock.planner.label_states import SpanStates, count_states
from waterclock.selection import Labels
from waterclock.timelabel.cadence import Cadence


def project_grid(at: OpenedProject, tables: Sequence[Table], cadence: Cadence, span: tuple[datetime, datetime]) -> Grid:
    """Return the grid of some tables in a span: the states of their labels, and the warnings about rows."""
    columns = [window.start for window in cadence.windows(*span)]
    of_cadence = {each: bounds(cadence, span, each) for each in {table.cadence for table in tables}}
    edges = {table.name: of_cadence[table.cadence] for table in tables if columns}
    states, warned = states_in_spans(at, edges)
    return make_grid(at.flow, states, cadence, columns, warned)


def states_in_spans(
    at: OpenedProject, edges: Mapping[str, Sequence[datetime]]
) -> tuple[Mapping[str, tuple[SpanStates, ...]], Mapping[tuple[str, datetime], tuple[str, ...]]]:
    """Return the states of the labels between the edges of each table, and the warnings about rows by table and label.

    Cost: two queries of the ledger and a plan of the span; none if there are no tables.
    """
    if not edges:
        return {}, {}
    settled = StoredStates()
    warned: Mapping[tuple[str, datetime], tuple[str, ...]] = {}
    if at.ledger is not None:
        wide = min(each[0] for each in edges.values()), max(each[-1] for each in edges.values())
        settled = at.ledger.past.settled_labels(list(edges), *wide)
        warned = at.ledger.past.row_warnings(list(edges), *wide)
    warned_labels: dict[str, list[datetime]] = {}
    for name, label in warned:
        warned_labels.setdefault(name, []).append(label)
    return count_states(at.planner, at.snapshot, at.now, settled, edges, apart=warned_labels), warned


def zone_of_columns(tables: Sequence[Table], usual: str) -> str:
    """Return the zone of the columns: `usual` if one of the tables has it, otherwise the zone of some table."""
    zones = {table.cadence.zone for table in tables}
    return usual if usual in zones or not zones else min(zones)


def span_of_labels(
    labels: Iterable[Labels], cadence: Cadence, tables: Sequence[Table], now: datetime
) -> tuple[datetime, datetime] | None:
    """Return the span of columns that covers all selected labels. An open end is START or the newest label due."""
    spans = [each.bounds(cadence) for each in labels]
    if not spans:
        return None
    newest = newest_span(tables, cadence, now, 1)[1]
    begins = [cadence.floor(table.start) for table in tables if table.start is not None]
    low = min((low or min(begins, default=newest) for low, _ in spans), default=newest)
    high = max((high or newest for _, high in spans), default=newest)
    return cadence.floor(max(low, BEGINNING)), cadence.ceil(min(high, FOREVER))


def span_since_start(
    at: OpenedProject, names: Sequence[str], cadence: Cadence, span: tuple[datetime, datetime]
) -> tuple[datetime, datetime]:
    """Return a span that does not begin before the earliest START of the tables, where there is nothing to show."""
    starts = at.planner.starts(at.snapshot, at.now)
    first = cadence.floor(min((starts[name] for name in names), default=span[0]))
    return (max(span[0], first), span[1]) if first < span[1] else span
