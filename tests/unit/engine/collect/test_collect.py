"""An item that arrived is collected by one batch, whatever another runner does meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from tests.ledgers import day
from tests.unit.engine.fakes import FakeConnections, collect, group, work_of
from waterclock.connectors.interface import Collected, Item, Listing, Report
from waterclock.engine.collect.collect import _read_arrivals, assign_arrivals
from waterclock.engine.collect.collect_result import CollectResult
from waterclock.flow.enums import Batching
from waterclock.timelabel.intervals import IntervalSet

if TYPE_CHECKING:
    from waterclock.connectors.interface import ArrivalCollector

LATE = Item("late", day(0.5), 1, "new/late", changed=day(3))
OWN = Item("own", day(2.5), 1, "new/own", changed=day(2.5))
COLLECTED = {"name": "late", "size": 2, "stamp": day(0.5).isoformat(), "changed": day(0.5).isoformat()}


@dataclass
class Overtaken:
    """A ledger in which another runner records the second day, with the late item, after the first query."""

    questions: int = 0

    def _is_recorded(self) -> bool:
        self.questions += 1
        return self.questions > 1

    def covered_windows(self, _: str) -> IntervalSet:
        return IntervalSet.from_intervals([(day(0), day(2 if self._is_recorded() else 1))])

    def table(self, _: str) -> Any:
        return SimpleNamespace(start=day(0))

    def list_collected_items(self, _: str) -> set[str]:
        return set()  # items for which the archive need not be searched

    def find_collected_items(self, _: str, names: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        return {name: dict(COLLECTED) for name in names if name == "late" and self._is_recorded()}


@dataclass
class Landed(FakeConnections):
    """A landing folder with a late item, and one of the third day."""

    read: dict[datetime, list[str]] = field(default_factory=dict)
    archived: list[Item] = field(default_factory=list)

    def arrivals(self, _: Any, taken: Any = ()) -> Listing:  # noqa: ARG002 - the collector's signature
        return Listing((LATE, OWN), ())

    def read_items(self, _: Any, __: Any, items: Mapping[datetime, Sequence[Item]], *___: Any) -> Collected:
        self.read = {label: [item.name for item in of_label] for label, of_label in items.items()}
        return Collected(None)  # type: ignore[arg-type]  # no frame is used

    def archive(self, _: Any, items: Sequence[Item]) -> tuple[Report, ...]:
        self.archived += items
        return ()


def read_overtaken() -> tuple[Landed, CollectResult]:
    table = dataclasses.replace(collect("web.clicks", batching=Batching.ARRIVAL_TIME), start=day(0))
    landed = Landed()
    work = work_of([table])
    work.ledger = SimpleNamespace(reads=Overtaken())
    assert table.source is not None
    windows = [batch.window for batch in group("web.clicks", 2).batches]
    unit, source = table.source.unit, cast("ArrivalCollector", landed)  # as much of a collector as is asked
    arrived = assign_arrivals(work, table, windows, day(9), unit, source)
    read = _read_arrivals(None, table, arrived, unit, source)  # type: ignore[arg-type]  # the fake reads without Spark
    read.after(work)
    return landed, read


def test_an_item_claimed_by_another_runner_meanwhile_is_not_collected_again() -> None:
    landed, read = read_overtaken()
    assert landed.read == {day(2): ["own"]}
    assert [item["name"] for item in read.source[day(2)]["items"]] == ["own"]


def test_the_time_and_size_of_an_item_are_noted_and_compared_also_when_a_later_batch_archives_it() -> None:
    landed, read = read_overtaken()
    assert [item["changed"] for item in read.source[day(2)]["items"]] == [day(2.5).isoformat()]
    assert [(it.name, it.size, it.changed) for it in landed.archived] == [
        ("late", 2, day(0.5)),
        ("own", 1, day(2.5)),
    ]
