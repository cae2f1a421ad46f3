"""At which tick can tables be asked together, and what must be known by then? Pure (ARCHITECTURE 4, Ad hoc)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import islice

from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow import Flow, Mode
from waterclock.ledger.facts import BEGINNING, LedgerSnapshot
from waterclock.planner.graph import FlowGraph, Node
from waterclock.planner.settling import Settlement
from waterclock.selection import parse_labels
from waterclock.timelabel import IntervalSet, label_of, local_text, parse_instant

# How many boundaries are looked at before it is said that there is no tick: three years of days, ten days of minutes.
_TRIED = 1500
_NOWHERE = IntervalSet()
LATEST = "latest"


def read_tick(text: str, flow: Flow, zone: str) -> datetime | None:
    """Read a tick: an instant, a bare label (that instant), `table@label` (the end of its window); `latest` is None.

    An instant without an offset is one of `zone`; its seconds are left out, for windows start at whole minutes.
    Raises  E511 for a table that is not there, E512 for what is no label, E106 for what is no instant
    """
    written = text.strip()
    if written.lower() == LATEST:
        return None
    name, has_table, label = written.partition("@")
    if not has_table:
        return parse_instant(written, zone).replace(second=0, microsecond=0)
    if name not in flow.tables:
        raise WaterclockError("E511", f"no table {name}", fix=did_you_mean(name, flow.tables))
    cadence = flow.tables[name].cadence
    labels = parse_labels(label)
    low, high = labels.bounds(cadence)
    if low is None or high is None or cadence.next(low) < high:
        raise WaterclockError(
            "E512",
            f"{label} means several labels of {name}",
            why="a tick is one instant, the end of one label's window",
            fix=f"write one label, as in {name}@{label_of(cadence.floor(low or high or BEGINNING))}",
        )
    return cadence.next(low)


@dataclass(frozen=True, slots=True)
class Ticks:
    """What is known of the tables that a query names, at one moment."""

    graph: FlowGraph
    snapshot: LedgerSnapshot
    settlement: Settlement
    starts: Mapping[str, datetime]
    now: datetime

    def latest(self, tables: Collection[str]) -> datetime:
        """Give the newest tick at which all the tables are settled.

        Raises  E523 where there is none
        """
        for tick in islice(self._boundaries(tables), _TRIED):
            if all(self._is_settled(self.graph.nodes[name], tick) for name in tables):
                return tick
        raise WaterclockError(
            "E523",
            "there is no tick at which all of it is settled",
            why=f"asked of {', '.join(sorted(tables))}",
            fix="`waterclock status` shows what is not done; --as-of TICK asks for a tick of your own",
        )

    def require(self, tables: Collection[str], tick: datetime) -> None:
        """See that every table has a content as of a tick.

        Raises  E521 for a tick in the future or before a table's first window; E522 where windows up to it are not made
        """
        if tick > self.now:
            raise WaterclockError(
                "E521",
                f"{label_of(tick)} lies in the future",
                why=f"it is {self.now:%Y-%m-%d %H:%MZ}",
                fix="--as-of latest gives the newest tick that is settled",
            )
        for name in tables:
            self._require(self.graph.nodes[name], tick)

    def disturbed(self, tables: Collection[str], tick: datetime) -> Mapping[str, frozenset[datetime]]:
        """Give the stale batches, by table, that keep the tables' content as of a tick from being settled.

        They are batches of what is read, or of what these stand on, directly or through others.
        """
        found: dict[str, set[datetime]] = {}
        seen: set[tuple[str, datetime]] = set()
        to_do = [(name, *self._read(self.graph.nodes[name], tick)) for name in tables]
        while to_do:
            name, low, high = to_do.pop()
            unsettled = self.settlement.unsettled.get(name, _NOWHERE)
            if low >= high or unsettled.first_gap(low, high) == (low, high):
                continue
            stale = self.settlement.stale.get(name, frozenset())
            found.setdefault(name, set()).update(label for label in stale if low <= label < high)
            for label, inputs in self.snapshot.of(name).suspects.items():
                if low <= label < high and label not in stale and (name, label) not in seen:
                    seen.add((name, label))
                    to_do += [(fact.table, fact.low, fact.high) for fact in inputs]
        return {name: frozenset(labels) for name, labels in found.items() if labels}

    def _boundaries(self, tables: Collection[str]) -> Iterator[datetime]:
        """Give the boundaries of the tables up to where the first of them ends, newest first, each once."""
        nodes = [self.graph.nodes[name] for name in tables]
        ends = [self.settlement.newest_tick(node, self.starts[node.table.name]) for node in nodes]
        known = [end for end in ends if end is not None]
        if len(known) < len(nodes):
            return
        limit = min(node.table.cadence.next(end) for node, end in zip(nodes, known, strict=True))
        last = None
        for tick in merge(*(self._descending(node, limit) for node in nodes), reverse=True):
            if tick != last:
                yield tick
            last = tick

    def _descending(self, node: Node, limit: datetime) -> Iterator[datetime]:
        cadence, first = node.table.cadence, self.starts[node.table.name]
        tick = cadence.previous(limit) if limit <= self.now else cadence.floor(self.now)
        while tick > first or node.table.is_snapshot:
            yield tick
            tick = cadence.previous(tick)

    def _is_settled(self, node: Node, tick: datetime) -> bool:
        low, high = self._read(node, tick)
        if low >= high:
            return False
        settled = self.settlement.settled[node.table.name]
        if not node.table.is_partitioned:
            return settled.covers(low, high)
        last = node.table.cadence.previous(high)
        return settled.covers(last, high) and not _begins_before(
            self.settlement.unsettled.get(node.table.name, _NOWHERE), high
        )

    def _read(self, node: Node, tick: datetime) -> tuple[datetime, datetime]:
        """Give the windows that a table's content as of a tick rests on."""
        table, high = node.table, node.table.cadence.floor(tick)
        if table.mode is Mode.REPLACE:
            return table.cadence.previous(high), high
        low = self.starts[table.name]
        if table.retain is not None and table.mode is Mode.APPEND:
            low = max(low, table.cadence.ceil(table.retain.before(high, table.cadence.zone)))
        return low, high

    def _require(self, node: Node, tick: datetime) -> None:
        table, (low, high) = node.table, self._read(node, tick)
        zone, start = table.cadence.zone, self.starts[table.name]
        if high <= start and not table.is_snapshot:
            raise WaterclockError(
                "E521",
                f"{table.name} begins after {label_of(tick)}",
                where=f"{table.name}@{label_of(tick)}",
                why=f"its first window starts {local_text(start, zone)}",
                fix=f"ask as of {label_of(table.cadence.next(start))} or later",
            )
        gap = self.snapshot.of(table.name).covered.first_gap(low, high)
        if gap is None or table.is_partitioned:
            return
        window = table.cadence.window_of(gap[0])
        raise WaterclockError(
            "E522",
            f"{table.name} has no state as of {label_of(tick)}",
            where=f"{table.name}@{window.label}",
            why="that batch is not made" + ("; a state that nobody reads is not needed" if node.is_optional else ""),
            fix=f"`waterclock backfill {table.name} {window.label}` makes it, or ask as of another tick",
        )


def _begins_before(spans: IntervalSet, tick: datetime) -> bool:
    first = next(iter(spans), None)
    return first is not None and first[0] < tick
