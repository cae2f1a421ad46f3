"""Drives two projects, one of which collects tables of the other: real planners, ledgers and links, two toy lakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import TypeVar

from tests.model import random_flow as flows
from tests.model.driving import CODE, Driver, Flight
from tests.model.flows import cadence as cadence_of
from tests.model.flows import collect, flow, transform
from tests.model.oracle import Oracle
from tests.model.random_flow import RandomFlow
from tests.model.toy import Rows, ToyTable, query
from tests.systems import setting_of
from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.batches.records import ClaimRequest
from waterclock.connectors.waterclock.connector import WaterclockCollector
from waterclock.engine.linked_projects import Links, linked_inputs
from waterclock.flow.declarations import Flow, Read, Source, Table, Unit
from waterclock.flow.enums import Batching, Kind, Mode
from waterclock.flow.linked_projects import upstream_of
from waterclock.ledger.ledger import Ledger
from waterclock.planner.linked_projects import is_by_label, linked_span
from waterclock.planner.plan import BoundRead, Group, ReadScope
from waterclock.timelabel.fitting import consists_of_windows
from waterclock.timelabel.window import Window

R = TypeVar("R")
UP = "up"


@dataclass(slots=True)
class InMemory(WaterclockCollector):
    """The real connector over a ledger that is already open."""

    ledger: Ledger = field(kw_only=True)

    def _read_ledger(self, ask: Callable[[Ledger], R]) -> R | None:
        return ask(self.ledger)


@dataclass(frozen=True, slots=True)
class OneConnection:
    """The connections of a project that is linked to one other."""

    other: InMemory

    def resolve_unit(self, unit: Unit) -> Unit:
        return unit

    def collector(self, _: str) -> InMemory:
        return self.other


@dataclass(slots=True)
class LinkedDriver(Driver):
    """Drives a project that collects from another one, which is driven alongside."""

    up: Driver = field(kw_only=True)
    links: Links = field(kw_only=True)

    @classmethod
    def beside(cls, up: Driver, made: RandomFlow, random: Random) -> LinkedDriver:
        base = Driver.of(made, random)
        other = InMemory(setting_of(UP, Path()), ledger=up.ledger)
        links = Links(made.flow, OneConnection(other))  # type: ignore[arg-type]
        given = (base.random, base.flow, base.lake, base.ledger, base.clock, base.planner)
        return cls(*given, first_look=base.first_look, up=up, links=links)

    def snapshot(self) -> LedgerSnapshot:
        return self.links.marked_snapshot(self.ledger, "test")

    def take_off(self, group: Group) -> None:
        table = self.flow.tables[group.table]
        if upstream_of(table) is None or group.is_made_of_kept:
            Driver.take_off(self, group)
            return
        pins = self.links.pins(table, [batch.window for batch in group.batches])
        request = ClaimRequest(
            table=group.table,
            labels=tuple(batch.label for batch in group.batches),
            code=CODE,
            flow=self.flow.fingerprint,
            runner="test",
            who="test",
            now=self.now,
            lease_seconds=1e6,
            target_version=-1,
            inputs=linked_inputs(table, pins),
        )
        claim = self.ledger.claims.take(request)
        made: dict[datetime, Rows] = {}
        evidence: dict[datetime, object] = {}
        for window, _ in pins:
            bound, source = self._bound(table, window), self._source(table)
            made[window.start] = query(table, window, [source.given(bound), None], self.lake.grains[table.name])
            evidence[window.start] = source.parts(bound)
        self.flights.append(Flight(claim, group, made, evidence, dict.fromkeys(made), self.turn))

    def _source(self, table: Table) -> ToyTable:
        assert table.source is not None
        return self.up.lake.tables[table.source.unit.path]

    def _bound(self, table: Table, window: Window) -> BoundRead:
        link = self.links.read_progress(self.ledger)[table.name]
        span = linked_span(table, link, window)
        assert span is not None
        scope = ReadScope.SLICES if is_by_label(table) else ReadScope.STATE
        return BoundRead(Read(self._source(table).table.name), scope, *span)

    def restate(self) -> None:
        """Change own sources only: a linked table is made again if the other project has changed."""


def linked(random: Random, up: RandomFlow) -> tuple[RandomFlow, Flow]:
    """Build a flow that collects tables of another one, and a single flow in which each collect is a transform."""
    of = [table for table in up.flow.tables.values() if _can_be_linked(table)]
    if any(table.choices for table in up.flow.tables.values()):
        # where windows choose, a single flow makes the newest state that any query could make; a link, the newest
        # existing one
        of = [table for table in of if table.mode is Mode.APPEND]
    here: dict[str, Table] = {}
    as_one: dict[str, Table] = {}
    for number, table in enumerate(random.sample(of, min(len(of), random.choice((1, 2))))):
        mine, one = _link(random, f"l{number}", table, up.flow)
        here[mine.name], as_one[one.name] = mine, one
    palette = [each for each in flows._PERIODS if each[0] != "5 MINUTES"]
    for number in range(random.choice((1, 2, 3))):
        for made in flows._transform(random, f"h{number}", here, random.choice(palette)):
            here[made.name] = as_one[made.name] = made
    grains = {name: random.choice((2, 3, 1 << 20, 1 << 20)) for name in here}
    return RandomFlow(flow(*here.values()), grains), flow(*up.flow.tables.values(), *as_one.values())


def _can_be_linked(table: Table) -> bool:
    """Return whether all windows of a table are made and kept, even if no table of its own project needs them."""
    is_made_if_needed = table.kind is Kind.TRANSFORM and table.mode is Mode.REPLACE
    # a single flow reads all rows of a regular APPEND table, never those of one label
    is_made_if_needed = is_made_if_needed or (table.mode is Mode.APPEND and not table.is_partitioned)
    return table.kind is not Kind.PUBLISH and not is_made_if_needed and table.retain is None and not table.is_snapshot


def _link(random: Random, name: str, table: Table, up: Flow) -> tuple[Table, Table]:
    periods = [cadence_of(period, zone=zone) for period, zone in flows._PERIODS]
    is_by_label = table.mode is Mode.APPEND
    legal = [each for each in periods if not is_by_label or consists_of_windows(each, flows._bare(table.cadence))]
    legal = [each for each in legal if each.period.minutes >= min(table.cadence.period.minutes, 30)]
    cadence = random.choice(legal)
    is_partitioned = is_by_label and random.random() < 0.7
    mode = Mode.APPEND if is_by_label else Mode.REPLACE
    as_one = transform(
        name,
        [table.name],
        str(cadence.period),
        mode=mode,
        is_partitioned=is_partitioned,
        zone=cadence.zone,
    )
    together = flow(*up.tables.values(), replace(as_one, reads=(Read(table.name),)))
    start = _oracle(together).starts[name]
    batching = Batching.LABELS if is_by_label else Batching.STATE
    mine = collect(name, str(cadence.period), mode=mode, is_partitioned=is_partitioned, zone=cadence.zone, start=start)
    source = Source(Unit(UP, table.name, None, {}, table.place), batching)
    return replace(mine, source=source), replace(as_one, start=start, reads=(Read(table.name),))


def _oracle(of: Flow) -> Oracle:
    return Oracle(of, {}, {}, {}, {}, frozenset(), flows.EVE, flows.EVE)


def as_one_oracle(up: Driver, here: LinkedDriver, as_one: Flow) -> Oracle:
    return Oracle(
        flow=as_one,
        grains={**up.lake.grains, **here.lake.grains},
        source={**up.lake.source, **here.lake.source},
        looks={**up.looks, **here.looks},
        ticks={**up.ticks, **here.ticks},
        skipped=frozenset(up.skipped | here.skipped),
        first_look=up.first_look,
        now=here.now,
    )
