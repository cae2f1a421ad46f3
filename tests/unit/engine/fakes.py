"""Fakes of the engine's collaborators: plans of a few batches, a source and a ledger in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from tests.ledgers import SOMEWHERE, day, table
from tests.tiny import Heard
from waterclock.batches.records import TableRecord
from waterclock.engine.connections import Connections
from waterclock.engine.linked_projects import Links
from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Source, Table, Unit
from waterclock.flow.enums import Batching, Kind, Mode, TableType
from waterclock.planner.plan import Batch, Group, Status
from waterclock.storage.lake import Lake
from waterclock.storage.slices.manifest import Manifest
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.period import parse_period
from waterclock.timelabel.window import Window


def batch(name: str, number: int) -> Batch:
    return Batch(name, Window(day(number), day(number + 1)), Status.READY, "due")


def group(name: str, *numbers: int) -> Group:
    return Group(name, tuple(batch(name, number) for number in numbers))


def manifest(name: str, number: int, *, rows: int = 1, digest: str | None = None) -> Manifest:
    return Manifest(
        table=name,
        label=day(number),
        claim=2,
        slice_path="_stage",
        files=(),
        rows=rows,
        bytes=10,
        digest=digest,
        schema="{}",
        code="code",
        source={},
        sealed_at=day(9),
    )


def collect(
    name: str,
    *,
    batching: Batching = Batching.DATA_TIME,
    lookback: Duration | None = None,
    mode: Mode = Mode.APPEND,
    zone: str = "UTC",
    partitioned: bool = True,
) -> Table:
    return Table(
        name=name,
        kind=Kind.COLLECT,
        type=TableType.PARTITIONED if partitioned else TableType.REGULAR,
        mode=mode,
        cadence=Cadence(parse_period("DAY"), zone=zone),
        place=SOMEWHERE,
        source=Source(Unit("shop", name, None, {}, SOMEWHERE), batching, "at", lookback),
    )


@dataclass
class FakeConnections:
    """Connections with one source whose clock is given."""

    clock_at: datetime | Exception | None = None
    asked: list[str] = field(default_factory=list)

    def resolve_unit(self, unit: Unit) -> Unit:
        return unit

    def collector(self, name: str) -> FakeConnections:
        del name
        return self

    def clock(self, unit: Unit) -> datetime | None:
        self.asked.append(str(unit))
        if isinstance(self.clock_at, Exception):
            raise self.clock_at
        return self.clock_at


class FakeLedger:
    """A ledger without tables, whose clock is far ahead of the plan."""

    def now(self) -> datetime:
        return datetime(2100, 1, 1, tzinfo=UTC)

    @property
    def reads(self) -> FakeLedger:
        return self

    @property
    def declared(self) -> FakeLedger:
        return self

    def applied_flow(self) -> None:
        """Return that no flow was applied."""

    def tables(self) -> list[TableRecord]:
        return []

    def find_table(self, name: str) -> None:
        del name


@dataclass
class FakeSessions:
    """Sessions of a Spark that starts or fails to start; it ends on request."""

    refusal: WaterclockError | None = None
    revived: int = 0

    def root(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def revive(self) -> bool:
        self.revived += 1
        return True

    def end_of_jvm(self) -> str:
        return "it was killed by SIGKILL"


@dataclass
class FakeWork:
    """The part of a run context that planning and retrying use."""

    flow: Flow
    connections: FakeConnections = field(default_factory=FakeConnections)
    settings: RunSettings = field(default_factory=lambda: RunSettings(threads=4, attempts=3, retry_wait=0.0))
    listener: Heard = field(default_factory=Heard)
    ledger: FakeLedger = field(default_factory=FakeLedger)
    sessions: FakeSessions = field(default_factory=FakeSessions)
    lake: Lake = field(default_factory=lambda: Lake("/nowhere"))

    @property
    def links(self) -> Links:
        return Links(self.flow, cast("Connections", self.connections))

    def abandoned_claims(self) -> frozenset[int]:
        return frozenset()

    def real_now(self) -> datetime:
        return self.ledger.now()


def work_of(tables: Iterable[Table], *, pools: Mapping[str, int] | None = None, **more: Any) -> Any:
    """Return a run context around a flow of `tables`, typed as Any because it replaces the real one."""
    known = {each.name: each for each in tables}
    return FakeWork(Flow(project="demo", tables=known, order=tuple(known), pools=dict(pools or {})), **more)


__all__ = ["FakeConnections", "FakeSessions", "FakeWork", "batch", "collect", "group", "manifest", "table", "work_of"]
