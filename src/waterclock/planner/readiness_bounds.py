"""Narrows missing windows down to those that may be ready, by interval arithmetic. Evaluating each would be slow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.flow.declarations import Read
from waterclock.flow.enums import ReadKind
from waterclock.planner.dependency_graph import Node
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.intervals import Interval, IntervalSet

_MAX_VARIATION = timedelta(
    days=4
)  # a month after 28, 29, 30 or 31 January is 28 February; a day may be an hour shorter
_ZERO = timedelta(0)
_ALL_TIME = IntervalSet.from_intervals([(BEGINNING, FOREVER)])


def find_reachable_spans(node: Node, settled: Mapping[str, IntervalSet], nodes: Mapping[str, Node]) -> IntervalSet:
    """Return spans that contain every window whose inputs may all be settled, and possibly other windows.

    A batch that reads a table `u` at its tick e reads at least the last window of u that ends at or before e. So e is
    within a settled span of u, or before u's next boundary after it. Reads at other ticks (PREVIOUS, LATEST) give no
    bound, and neither does UNTIL up to a closing tick. For any other UNTIL the tick is its span after e. If windows
    choose between queries (WHEN), the inputs of one query must be settled.
    """
    table = node.table
    if not table.choices:
        return _find_reachable_windows(node, table.reads, settled, nodes)
    found = IntervalSet()
    for choice in table.choices:
        found |= _find_reachable_windows(node, choice.reads, settled, nodes)
    return found


def find_partial_span(node: Node, now: datetime) -> IntervalSet:
    """Return a span that contains every window that PARTIAL AFTER allows to run without some of its inputs."""
    after, cadence = node.table.partial_after, node.table.cadence
    if after is None or node.table.closes is not None:
        return IntervalSet()
    end = cadence.ceil(after.subtract_from(now, cadence.zone))
    # a month after 31 January is 28 February, and a month before that is 28 January
    while after.add_to(following := cadence.next(end), cadence.zone) <= now:
        end = following
    return IntervalSet.from_intervals([(BEGINNING, end)])


def _find_reachable_windows(
    node: Node, reads: Iterable[Read], settled: Mapping[str, IntervalSet], nodes: Mapping[str, Node]
) -> IntervalSet:
    found = _ALL_TIME
    for read in reads:
        is_open_ended = read.kind is ReadKind.UNTIL and node.table.closes is not None
        is_of_each = node.table.open_of is not None and read.kind is not ReadKind.UNTIL  # read for each open window
        if read.kind not in {ReadKind.PREVIOUS, ReadKind.LATEST} and not is_open_ended and not is_of_each:
            behind = read.span if read.kind is ReadKind.UNTIL and node.table.open_of is None else None
            served = _list_served_intervals(node, nodes[read.table], settled[read.table], behind)
            found &= IntervalSet.from_intervals(served)
    return found


def _list_served_intervals(node: Node, u: Node, settled: IntervalSet, behind: Duration | None) -> Iterator[Interval]:
    """Yield, for each settled span of `u`, an interval with all windows that may read `u` from that span.

    `behind` is how far past its end a window reads. A calendar duration may vary by some days.
    """
    cadence = node.table.cadence
    slack = _MAX_VARIATION if behind is not None and behind.unit not in {"SECOND", "MINUTE", "HOUR"} else _ZERO
    for low, high in settled:
        end = u.table.cadence.next(high)
        if behind is not None:
            end = behind.subtract_from(end, cadence.zone) + slack
            low = low if low == BEGINNING else behind.subtract_from(low, cadence.zone) - slack  # noqa: PLW2901
        first = low if low == BEGINNING else cadence.floor(low)
        last = cadence.previous(end)
        if first < last:
            yield first, last
