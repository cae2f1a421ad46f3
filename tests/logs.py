"""A log for tests: parts that grow, read by positions. Its connector is registered for one test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from waterclock.connectors import registry
from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import Collected, Item, Positions, Report, Setting
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.declarations import Columns, Unit
from waterclock.flow.enums import Batching
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_CAN = Capabilities(type="memory", collects=frozenset({Batching.ARRIVAL_TIME}))


@dataclass
class Log:
    """A log in memory: rows of each part by position, released items, and each range that was read."""

    name: str = "log 1"
    parts: dict[str, list[str]] = field(default_factory=lambda: {"0": [], "1": []})
    read: list[tuple[str, int, int]] = field(default_factory=list)
    let_go: list[str] = field(default_factory=list)
    capabilities: Capabilities = _CAN

    def append(self, part: str, *notes: str) -> None:
        self.parts.setdefault(part, []).extend(notes)

    def collector(self, setting: Setting) -> Log:
        del setting
        return self

    def deliverer(self, setting: Setting) -> Deliverer:
        raise AssertionError(setting)

    def clock(self, unit: Unit) -> datetime | None:
        del unit
        return None

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        del unit
        return {"part": "STRING", "at": "BIGINT", "note": "STRING"}

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        del unit, columns, error
        return None

    def next_range(self, unit: Unit, reached: Positions | None, first: datetime) -> Positions | None:
        del unit, first
        ends = {} if reached is None else {part: end for part, (_, end) in reached.parts.items()}
        came = {part: (ends.get(part, 0), len(rows)) for part, rows in self.parts.items()}
        return Positions(self.name, came) if any(low < high for low, high in came.values()) else None

    def read_items(
        self, spark: SparkSession, unit: Unit, items: Mapping[datetime, Sequence[Item]], columns: Columns, zone: str
    ) -> Collected:
        del unit, columns, zone
        rows: list[tuple[str, int, str, str]] = []
        for label, item in ((label, item) for label, owned in items.items() for item in owned):
            for part, (low, high) in item.positions.parts.items() if item.positions else ():
                self.read.append((part, low, high))
                rows += [(part, at, self.parts[part][at], label_of(label)) for at in range(low, high)]
        schema = f"part STRING, at BIGINT, note STRING, {TIMELABEL} STRING"
        return Collected(spark.createDataFrame(rows, schema), is_empty=not rows)

    def archive(self, unit: Unit, items: Sequence[Item]) -> tuple[Report, ...]:
        del unit
        self.let_go += [item.name for item in items]
        return ()


@contextmanager
def registered(monkeypatch: pytest.MonkeyPatch, **connectors: Any) -> Iterator[None]:
    """Register connection types for one test."""
    real, load = registry._entry_points(), registry._load_connector
    points = {**real, **{name: name for name in connectors}}
    monkeypatch.setattr(registry, "_entry_points", lambda: points)
    monkeypatch.setattr(
        registry, "_load_connector", lambda point: connectors[point] if point in connectors else load(point)
    )
    yield
    monkeypatch.undo()
