"""The range of a log for a label: the first one, the next one, or one that no label owns any more. No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import day
from tests.unit.engine.fakes import FakeConnections, collect, group, work_of
from waterclock.connectors.interface import Positions
from waterclock.engine.collect.positions import range_to_dict, ranges_of
from waterclock.flow.enums import Batching


@dataclass
class Log(FakeConnections):
    """A log that records the instant from which its first range is requested."""

    firsts: list[datetime] = field(default_factory=list)

    def next_range(self, _: Any, reached: Positions | None, first: datetime) -> Positions:
        assert reached is None
        self.firsts.append(first)
        return Positions("log 1", {"0": (0, 7)})

    def read_items(self, *_: Any) -> Any:
        raise AssertionError("no range is read yet")

    def archive(self, *_: Any) -> Any:
        raise AssertionError("no range is read yet")

    def schema(self, _: Any) -> None:
        return None

    def explain(self, *_: Any) -> None:
        return None


@pytest.mark.parametrize(("start", "first"), [(day(0), day(0)), (day(0) + timedelta(hours=5), day(0)), (None, day(2))])
def test_records_of_windows_that_were_skipped_or_not_selected_are_in_the_first_range(
    start: datetime | None, first: datetime
) -> None:
    table, log = collect("web.clicks", batching=Batching.ARRIVAL_TIME), Log()
    work = work_of([table], connections=log)
    reads = SimpleNamespace(
        owned_items=lambda *_: ({}, None), newest=lambda _: None, table=lambda _: SimpleNamespace(start=start)
    )
    work.ledger = SimpleNamespace(reads=reads)
    owned = ranges_of(work, table, group("web.clicks", 2, 3))
    assert list(owned) == [day(2)]
    assert log.firsts == [first]


@dataclass
class Grown(Log):
    """A log of two parts, the second of which was added after some ranges."""

    ends: Mapping[str, int] = field(default_factory=lambda: {"0": 90, "1": 9})

    def next_range(self, _: Any, reached: Positions | None, first: datetime) -> Positions:
        self.firsts.append(first)
        lows = {} if reached is None else {part: end for part, (_low, end) in reached.parts.items()}
        return Positions("log 1", {part: (lows.get(part, 0), end) for part, end in self.ends.items()})


def item(number: int, log: str = "log 1", **parts: tuple[int, int]) -> dict[str, Any]:
    positions = {"of": log, "parts": {part[1:]: list(span) for part, span in parts.items()}}
    return {"name": f"positions {number:012d}", "positions": positions}


@pytest.mark.parametrize(
    ("known", "labels", "expected"),
    [
        # a rebuilt ledger does not know the range of a label that was held
        ({0: item(1, p0=(0, 10)), 2: item(3, p0=(20, 30))}, (1,), {1: item(2, p0=(10, 20))}),
        ({0: item(1, p0=(0, 10)), 3: item(4, p0=(20, 30))}, (1, 2), {1: item(2, p0=(10, 20))}),
        ({0: item(1, p0=(0, 10)), 2: item(3, p0=(20, 30), p1=(4, 9))}, (1,), {1: item(2, p0=(10, 20), p1=(0, 4))}),
        ({1: item(2, p0=(5, 30))}, (0,), {0: item(1, p0=(0, 5))}),
        ({0: item(1, p0=(0, 10)), 2: item(3, p0=(20, 80))}, (1, 3), {1: item(2, p0=(10, 20)), 3: "next"}),
        # no range is between them: missed windows, or a START that moved back
        ({0: item(1, p0=(0, 10)), 2: item(2, p0=(10, 30))}, (1,), {}),
        ({0: item(1, p0=(0, 10)), 2: item(3, p0=(10, 30))}, (1,), {}),
        ({3: item(1, p0=(0, 10))}, (1, 2), {}),
        # ranges of a recreated topic have nothing between them
        ({0: item(1, p0=(0, 10)), 2: item(3, "log 0", p0=(20, 30))}, (1,), {}),
    ],
)
def test_a_range_that_no_label_owns_is_read_by_a_label_between_its_neighbours(
    known: Mapping[int, dict[str, Any]], labels: tuple[int, ...], expected: Mapping[int, dict[str, Any] | str]
) -> None:
    table, log = collect("web.clicks", batching=Batching.ARRIVAL_TIME), Grown()
    work = work_of([table], connections=log)
    newest = max(known)
    reads = SimpleNamespace(
        owned_items=lambda *_: ({}, (day(newest), known[newest])),
        items_around=lambda *_: [(day(number), one) for number, one in sorted(known.items())],
        newest=lambda _: None,
        table=lambda _: SimpleNamespace(start=day(0)),
    )
    work.ledger = SimpleNamespace(reads=reads)
    owned = ranges_of(work, table, group("web.clicks", *labels))
    of_next = item(4, p0=(80, 90), p1=(0, 9))
    found = {label: [range_to_dict(one) for one in items] for label, items in owned.items()}
    assert found == {day(label): [of_next if one == "next" else one] for label, one in expected.items()}
