"""The first range of a log begins where its table does, whichever of its windows is made first; no Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import day
from tests.unit.engine.fakes import FakeConnections, collect, group, work_of
from waterclock.connectors.interface import Positions
from waterclock.engine.collect.positions import ranges_of
from waterclock.flow.enums import Batching


@dataclass
class Log(FakeConnections):
    """A log that notes from which instant its first range is requested."""

    firsts: list[datetime] = field(default_factory=list)

    def next_range(self, _: Any, reached: Positions | None, first: datetime) -> Positions:
        assert reached is None
        self.firsts.append(first)
        return Positions("log 1", {"0": (0, 7)})

    def read_items(self, *_: Any) -> Any:
        raise AssertionError("nothing is read yet")

    def archive(self, *_: Any) -> Any:
        raise AssertionError("nothing is read yet")

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
