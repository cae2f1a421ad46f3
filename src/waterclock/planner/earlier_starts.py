"""Finds batches that would read more than before because an upstream table's START was moved back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from waterclock.batches.ledger_snapshot import BEGINNING, LedgerSnapshot
from waterclock.batches.records import Input
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import OnRestate
from waterclock.planner.dependency_graph import FlowGraph, Node
from waterclock.planner.input_binding import bind
from waterclock.planner.settlement import is_dropped

Batch = tuple[str, datetime]


def find_earlier_starts(
    starts: Mapping[str, datetime], snapshot: LedgerSnapshot
) -> dict[str, tuple[datetime, datetime]]:
    """Map each table whose START is now before all of its batches to this START and the start of its oldest batch."""
    found: dict[str, tuple[datetime, datetime]] = {}
    for name, start in starts.items():
        spans = list(snapshot.of(name).covered)
        if spans:
            low, high = spans[0]
            first = high if low == BEGINNING else low  # a first snapshot covers all windows before it
            if start < first:
                found[name] = start, first
    return found


def find_shortened_labels(
    flow: Flow,
    graph: FlowGraph,
    starts: Mapping[str, datetime],
    snapshot: LedgerSnapshot,
    recorded: Mapping[Batch, Sequence[Input]],
) -> dict[str, tuple[datetime, ...]]:
    """Map each table to its `recorded` batches that would now read further back, because a START was moved back.

    `recorded` maps batches to their inputs. Batches are left out if they could not be made again, or if their table
    declares ON RESTATE REPORT. For a publish of whole states only the newest batch is returned.
    """
    found: defaultdict[str, list[datetime]] = defaultdict(list)
    for (name, label), inputs in sorted(recorded.items()):
        node = graph.nodes.get(name)
        if node is not None and _may_be_made_again(node, label, inputs, starts, snapshot):
            more = {
                read: bound for read, bound in _rebind_inputs(node, label, flow, starts, inputs) if bound[1] < read.low
            }
            if more and is_dropped(more.values(), snapshot) is None:
                found[name].append(label)
    return {name: tuple(labels[-1:] if graph.nodes[name].is_newest_only else labels) for name, labels in found.items()}


def _may_be_made_again(
    node: Node, label: datetime, inputs: Sequence[Input], starts: Mapping[str, datetime], snapshot: LedgerSnapshot
) -> bool:
    table = node.table
    return (
        table.open_of is None  # tables of open windows are made from new reads at each tick
        and table.late_rows is None
        and table.on_restate is not OnRestate.REPORT
        and label >= starts[table.name]
        and label not in snapshot.of(table.name).partial  # made whole automatically, once all inputs are there
        and is_dropped(((it.table, it.low, it.high) for it in inputs), snapshot) is None
    )


def _rebind_inputs(
    node: Node, label: datetime, flow: Flow, starts: Mapping[str, datetime], inputs: Sequence[Input]
) -> Iterator[tuple[Input, tuple[str, datetime, datetime]]]:
    """Yield each recorded input that the table still reads, with the interval that it would read now."""
    window = node.table.cadence.window_of(label)
    by_text = {str(read): read for read in node.table.reads_for_window(window)}
    for recorded in inputs:
        read = by_text.get(recorded.read)
        if read is not None and read.table == recorded.table:
            (bound,) = bind(node.table, window, flow, starts, {read.table: recorded.high}, reads=[read])
            yield recorded, (read.table, bound.low, bound.high)
