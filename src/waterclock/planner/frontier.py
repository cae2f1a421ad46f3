"""How far a table could be made right now: its newest window all of whose inputs are settled already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from waterclock.flow import Flow, ReadKind
from waterclock.planner.graph import FlowGraph, Node
from waterclock.planner.reaching import within_reach
from waterclock.planner.reads import bind_read
from waterclock.timelabel import IntervalSet, Window

# Windows looked at below the top of each span within reach; what is not found there is found when more has settled.
_DEEP = 8


def frontier(
    flow: Flow,
    graph: FlowGraph,
    node: Node,
    settled: Mapping[str, IntervalSet],
    starts: Mapping[str, datetime],
    span: tuple[datetime, datetime],
) -> Window | None:
    """Give the newest window in `span` whose reads are all settled; None where none is found near the top."""
    low, high = span
    if low >= high:
        return None
    reached = within_reach(node, settled, graph.nodes) & IntervalSet.from_intervals([span])
    reads = [read for read in node.table.reads if read.kind is not ReadKind.LATEST]
    for window in _newest_first(node, reached):
        bound = (bind_read(node.table, read, window, flow, starts, cycle=node.cycle) for read in reads)
        if all(settled[read.read.table].covers(read.low, read.high) for read in bound):
            return window
    return None


def is_worth_making(node: Node, made: IntervalSet, start: datetime, candidate: Window, newest: datetime) -> bool:
    """Whether a state that will soon be superseded is made all the same.

    It is, once it is as far ahead of the newest state made as it is behind the newest wanted. So a table behind by n
    windows is made some log n times while it catches up, and one whose inputs always lag is still made.
    """
    cadence = node.table.cadence
    spans = list(made)
    head = max(start, spans[-1][1]) if spans else start
    return head < candidate.end and cadence.count(head, candidate.end) >= cadence.count(candidate.end, newest)


def _newest_first(node: Node, spans: IntervalSet) -> Iterator[Window]:
    cadence = node.table.cadence
    for low, high in reversed(list(spans)):
        end = high
        for _ in range(_DEEP):
            start = cadence.previous(end)
            if start < low:
                break
            yield Window(start, end)
            end = start
