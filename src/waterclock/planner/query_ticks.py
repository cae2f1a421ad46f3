"""Parses ticks, finds the newest tick at which tables can be queried together, and the windows to read then."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from heapq import merge
from itertools import islice

from waterclock.batches.ledger_snapshot import BEGINNING, LedgerSnapshot
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Mode
from waterclock.planner.dependency_graph import FlowGraph, Node
from waterclock.planner.known_states import KnownStates
from waterclock.planner.open_windows import ClosingTicks
from waterclock.planner.settlement import Settlement, find_unsettled
from waterclock.selection import parse_labels
from waterclock.similar_names import did_you_mean
from waterclock.timelabel.intervals import Interval, IntervalSet
from waterclock.timelabel.label import label_of
from waterclock.timelabel.zone import local_text, parse_instant

# The maximum number of boundaries checked before an error is raised: four years of days, one day of minutes
_MAX_BOUNDARIES = 1500
_NO_WINDOWS = IntervalSet()
LATEST = "latest"


def read_tick(text: str, flow: Flow, zone: str) -> datetime | None:
    """Parse a tick: an instant, a label (its instant) or `table@label` (the end of its window). None for `latest`.

    An instant without an offset is in `zone`; its seconds are dropped, since windows start at whole minutes. Raises
    E511 for an unknown table, E512 for an invalid label, and E106 for an invalid instant.
    """
    stripped = text.strip()
    if stripped.lower() == LATEST:
        return None
    name, has_table, label = stripped.partition("@")
    if not has_table:
        return parse_instant(stripped, zone).replace(second=0, microsecond=0)
    if name not in flow.tables:
        raise WaterclockError("E511", f"there is no table {name}", fix=did_you_mean(name, flow.tables))
    cadence = flow.tables[name].cadence
    labels = parse_labels(label)
    low, high = labels.bounds(cadence)
    if low is None or high is None or cadence.next(low) < high:
        raise WaterclockError(
            "E512",
            f"{label} matches several labels of {name}",
            why="a tick is one instant, the end of one label's window",
            fix=f"write one label, as in {name}@{label_of(cadence.floor(low or high or BEGINNING))}",
        )
    return cadence.next(low)


@dataclass(frozen=True, slots=True)
class Ticks:
    """Finds ticks for a query, from the state of the tables that it names at one moment.

    `opened` has the closing ticks of tables that are queried by their view. For tables queried only by the view,
    windows that were open at a tick are not part of the content at that tick.
    """

    graph: FlowGraph
    snapshot: LedgerSnapshot
    settlement: Settlement
    starts: Mapping[str, datetime]
    now: datetime
    opened: Mapping[str, ClosingTicks] = field(default_factory=dict)

    def latest(self, tables: Collection[str], *, is_partial: bool = False) -> datetime:
        """Return the newest tick at which all the tables are settled.

        `is_partial`: windows may be missing before a table's last one. Raises E523 if there is no such tick.
        """
        for tick in islice(self._iterate_boundaries(tables, is_partial=is_partial), _MAX_BOUNDARIES):
            if all(self._is_settled(self.graph.nodes[name], tick, is_partial=is_partial) for name in tables):
                return tick
        name, (first, _) = next(iter(self.find_awaited_windows(tables).items()), (None, (self.now, self.now)))
        raise WaterclockError(
            "E523",
            "no tick was found at which all of the queried tables are settled",
            where=f"{name}@{label_of(self.graph.nodes[name].table.cadence.floor(first))}" if name else None,
            why=f"queried: {', '.join(sorted(tables))}",
            fix="`waterclock status` shows the missing batches; --as-of TICK chooses another tick",
        )

    def newest_agreed_tick(
        self, tables: Collection[str], states: KnownStates, at: datetime, *, is_partial: bool = False
    ) -> datetime:
        """Return the newest tick at which all tables are settled, as known at `at`. Raises E523 if there is none."""
        snapshot = states.snapshot(at)
        then = replace(self, snapshot=snapshot, settlement=find_unsettled(self.graph, snapshot, {}, self.starts))
        return then.latest(tables, is_partial=is_partial)

    def find_awaited_windows(self, tables: Collection[str]) -> dict[str, Interval]:
        """Map each table to the first gap of unsettled windows in its newest content. Tables without are left out."""
        found: dict[str, Interval] = {}
        for name in tables:
            node, covered = self.graph.nodes[name], list(self.snapshot.of(name).covered)
            if covered:
                low, high = self._content_interval(node, node.table.cadence.floor(covered[-1][1]))
                gap = self.settlement.settled[name].first_gap(low, high) if low < high else None
                found |= {name: gap} if gap is not None else {}
        return found

    def find_needed_intervals(self, tables: Collection[str], tick: datetime) -> dict[str, Interval]:
        """Map each table to the interval of windows that make up its content as of a tick."""
        return {name: self._content_interval(self.graph.nodes[name], tick) for name in tables}

    def find_kept_intervals(self, tables: Collection[str], tick: datetime) -> dict[str, Interval]:
        """Map each table to the interval of windows that make up its content as of a tick, without dropped windows."""
        dropped = {name: self.snapshot.of(name).dropped_before or BEGINNING for name in tables}
        needs = self.find_needed_intervals(tables, tick)
        return {name: (min(max(low, dropped[name]), high), high) for name, (low, high) in needs.items()}

    def find_missing_windows(self, tables: Collection[str], tick: datetime) -> dict[str, IntervalSet]:
        """Map each table to the missing or dropped windows of its content as of a tick.

        Raises E521 for a tick in the future, or before the end of a table's first window.
        """
        if tick > self.now:
            raise WaterclockError(
                "E521",
                f"{label_of(tick)} is in the future",
                why=f"it is {self.now:%Y-%m-%d %H:%MZ}",
                fix="--as-of latest uses the newest settled tick",
            )
        found = {name: self._find_missing_of_table(self.graph.nodes[name], tick) for name in tables}
        return {name: gaps for name, gaps in found.items() if gaps}

    def _find_missing_of_table(self, node: Node, tick: datetime) -> IntervalSet:
        table, (low, high) = node.table, self._content_interval(node, tick)
        zone, start = table.cadence.zone, self.starts[table.name]
        if self._is_open_ended(table.name) and high <= low:
            return _NO_WINDOWS
        if high <= start:
            raise WaterclockError(
                "E521",
                f"{table.name} begins after {label_of(tick)}",
                where=f"{table.name}@{label_of(tick)}",
                why=f"its first window starts {local_text(start, zone)}",
                fix=f"query as of {label_of(table.cadence.next(start))} or later",
            )
        return self.find_dropped_windows(table.name, low, high) | self.snapshot.of(table.name).covered.gaps(low, high)

    def find_dropped_windows(self, name: str, low: datetime, high: datetime) -> IntervalSet:
        """Return the windows in `[low, high)` of a table that RETAIN has dropped."""
        dropped = self.snapshot.of(name).dropped_before
        if dropped is None or dropped <= low:
            return _NO_WINDOWS
        return IntervalSet.from_intervals([(low, min(dropped, high))])

    def _iterate_boundaries(self, tables: Collection[str], *, is_partial: bool) -> Iterator[datetime]:
        """Yield the windows' boundaries of all tables, newest first, each once, from the earliest end of any table."""
        nodes = [self.graph.nodes[name] for name in tables]
        ends = [self._newest_settled_end(node, is_partial=is_partial) for node in nodes]
        known = [end for end in ends if end is not None]
        if len(known) < len(nodes):
            return
        limit = min(node.table.cadence.next(end) for node, end in zip(nodes, known, strict=True))
        last = None
        for tick in merge(*(self._iterate_ticks_down(node, limit) for node in nodes), reverse=True):
            if tick != last:
                yield tick
            last = tick

    def _newest_settled_end(self, node: Node, *, is_partial: bool) -> datetime | None:
        """Return the newest boundary at which all windows of a table's content are settled, or None."""
        cadence = node.table.cadence
        if self._is_open_ended(node.table.name):
            return cadence.floor(self.now)
        for low, high in reversed(list(self.settlement.settled[node.table.name])):
            end = cadence.floor(high)
            if is_partial or low <= self._content_interval(node, end)[0] < high:
                return end
        return None

    def _iterate_ticks_down(self, node: Node, limit: datetime) -> Iterator[datetime]:
        cadence, first = node.table.cadence, self.starts[node.table.name]
        tick = cadence.previous(limit) if limit <= self.now else cadence.floor(self.now)
        while tick > first:
            yield tick
            tick = cadence.previous(tick)

    def _is_settled(self, node: Node, tick: datetime, *, is_partial: bool) -> bool:
        low, high = self._content_interval(node, tick)
        if low >= high:
            return self._is_open_ended(node.table.name)
        settled = self.settlement.settled[node.table.name]
        if not is_partial:
            return settled.covers(low, high)
        unsettled = self.settlement.unsettled.get(node.table.name, _NO_WINDOWS)
        return settled.covers(self._last_window_start(node.table.name, high), high) and unsettled.gaps(
            low, high
        ).covers(low, high)

    def _last_window_start(self, name: str, high: datetime) -> datetime:
        return self.graph.nodes[name].table.cadence.previous(high)

    def _is_open_ended(self, name: str) -> bool:
        return name in self.opened and self.opened[name].is_alone

    def _content_interval(self, node: Node, tick: datetime) -> Interval:
        """Return the interval of windows that make up a table's content as of a tick."""
        table, high = node.table, node.table.cadence.floor(tick)
        if table.mode is Mode.REPLACE:
            return min(max(table.cadence.previous(high), self.starts[table.name]), high), high
        low = self.starts[table.name]
        if table.retain is not None and table.mode is Mode.APPEND:
            low = max(low, table.cadence.ceil(table.retain.subtract_from(high, table.cadence.zone)))
        if self._is_open_ended(table.name):
            high = max(self.opened[table.name].first_open_window(tick), low)
        return low, high
