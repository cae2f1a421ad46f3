"""Finds the batches that must be made before a query as of a tick can be answered. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from waterclock.flow.declarations import Flow
from waterclock.flow.enums import ReadKind
from waterclock.planner.dependency_graph import Node
from waterclock.planner.input_binding import bind
from waterclock.planner.query_ticks import Ticks
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window

Labels = Mapping[str, frozenset[datetime]]
_Span = tuple[str, datetime, datetime]
_NO_WINDOWS = IntervalSet()
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Prerequisites:
    """The batches that a query needs and that are missing or whose inputs changed since, by table, upstream first.

    `force` has labels that no batch needed so far. `follow` has older states that are to be made again if their inputs
    have changed. `spans` has the first and the last label of all that may be made.
    """

    spans: Mapping[str, tuple[datetime, datetime]]
    force: Labels
    follow: Labels


def newest_tick(ticks: Ticks, tables: Collection[str]) -> datetime:
    """Return the newest instant as of which no table is read beyond its newest due label."""
    cadences = [ticks.graph.nodes[name].table.cadence for name in tables]
    return min(cadence.next(cadence.last_due(ticks.now)) for cadence in cadences) - _INSTANT


def find_prerequisites(flow: Flow, ticks: Ticks, tables: Collection[str], tick: datetime) -> Prerequisites:
    """Find the due and unsettled batches from which the tables' content as of a tick is made, directly or indirectly.

    Cost: grows with the number of windows to make.
    """
    open_: dict[str, IntervalSet] = {}
    to_do: list[_Span] = [(name, *span) for name, span in ticks.find_kept_intervals(tables, tick).items()]
    while to_do:
        name, low, high = to_do.pop()
        node = ticks.graph.nodes[name]
        known = open_.get(name, _NO_WINDOWS)
        if new := _find_unsettled_windows(ticks, node, low, high) - known:
            open_[name] = known | new
            for window in (window for span in new for window in node.table.cadence.windows(*span)):
                to_do += _list_inputs(flow, ticks, node, window)
    labels = {
        name: [window.start for span in open_[name] for window in node.table.cadence.windows(*span)]
        for name, node in ticks.graph.nodes.items()
        if name in open_
    }
    force, follow = {}, {}
    for name, of_table in labels.items():
        if ticks.graph.nodes[name].is_made_if_needed:
            covered = ticks.snapshot.of(name).covered
            force[name] = frozenset(label for label in of_table if not covered.covers_instant(label))
            follow[name] = frozenset(of_table) - force[name]
    return Prerequisites(
        spans={name: (of_table[0], of_table[-1]) for name, of_table in labels.items()},
        force={name: of_table for name, of_table in force.items() if of_table},
        follow={name: of_table for name, of_table in follow.items() if of_table},
    )


def _find_unsettled_windows(ticks: Ticks, node: Node, low: datetime, high: datetime) -> IntervalSet:
    """Return the unsettled windows of a span that can be made. For ordered tables, include the windows before it."""
    name, cadence = node.table.name, node.table.cadence
    facts, end = ticks.snapshot.of(name), cadence.last_due(ticks.now)
    first = max(ticks.starts[name], facts.dropped_before or ticks.starts[name])
    settled = ticks.settlement.settled[name]
    if node.table.is_snapshot:  # the newest label covers all labels since the previous snapshot
        is_there = low >= high or settled.covers(low, high)
        return _NO_WINDOWS if is_there or end <= first else settled.gaps(cadence.previous(end), end)
    low, high = (first if node.is_ordered else max(low, first)), min(high, end)
    return settled.gaps(low, high) if low < high else _NO_WINDOWS


def _list_inputs(flow: Flow, ticks: Ticks, node: Node, window: Window) -> Iterator[_Span]:
    """Yield the inputs of a batch. LATEST uses its stored tick, or else the newest settled or the newest due one."""
    latest = dict(ticks.snapshot.of(node.table.name).latest.get(window.start, {}))
    for read in node.table.reads_for_window(window):
        above = ticks.graph.nodes[read.table]
        if read.kind is ReadKind.LATEST and read.table not in latest:
            tick = ticks.settlement.newest_tick(above, ticks.starts[read.table])
            latest[read.table] = above.table.cadence.last_due(ticks.now) if tick is None else tick
    for bound in bind(node.table, window, flow, ticks.starts, latest):
        yield bound.read.table, bound.low, bound.high
