"""A source with a clock is read only after this clock has passed the window's end."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.ledgers import day
from tests.unit.engine.fakes import FakeConnections, collect, group, table, work_of
from waterclock.connectors.interface import Setting
from waterclock.connectors.receiver.connector import CONNECTOR as RECEIVER
from waterclock.connectors.receiver.segment_names import find_seal_time
from waterclock.engine.collect.source_clocks import SourceClocks
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Batching, Mode
from waterclock.planner.plan import Group


def passed(connections: FakeConnections, *asked: Group) -> list[list[int]]:
    tables = [
        collect("shop.orders"),
        collect("shop.lands", batching=Batching.SNAPSHOT, mode=Mode.REPLACE, partitioned=False),
        table("marts.a"),
    ]
    clocks = SourceClocks(work_of(tables, connections=connections), day(10))
    return [[(one.label - day(0)).days for one in clocks.complete(of).batches] for of in asked]


def test_labels_that_the_source_has_not_passed_are_left_out() -> None:
    assert passed(FakeConnections(day(3)), group("shop.orders", 1, 2, 3)) == [[1, 2]]
    assert passed(FakeConnections(day(2.9)), group("shop.orders", 1, 2, 3)) == [[1]]
    assert passed(FakeConnections(day(1)), group("shop.orders", 1, 2)) == [[]]


def test_a_source_without_a_clock_is_read_by_ours() -> None:
    assert passed(FakeConnections(None), group("shop.orders", 1, 2)) == [[1, 2]]


def test_snapshots_and_transforms_ask_no_clock() -> None:
    connections = FakeConnections(day(0))
    assert passed(connections, group("shop.lands", 5), group("marts.a", 5)) == [[5], [5]]
    assert connections.asked == []


def test_a_source_clock_is_read_once_per_run() -> None:
    connections = FakeConnections(day(3))
    passed(connections, group("shop.orders", 1), group("shop.orders", 2), group("shop.orders", 3))
    assert connections.asked == ["shop.shop.orders"]


def test_an_error_of_a_source_clock_is_raised_unchanged() -> None:
    gone = WaterclockError("E804", "the landing folder is not there")
    with pytest.raises(WaterclockError) as raised:
        passed(FakeConnections(gone), group("shop.orders", 1))
    assert raised.value is gone


def test_the_oldest_label_of_each_table_that_waits_for_its_source_is_known() -> None:
    clocks = SourceClocks(work_of([collect("shop.orders")], connections=FakeConnections(day(2))), day(10))
    clocks.complete(group("shop.orders", 0, 1, 2, 3))
    (held,) = clocks.waiting_windows
    assert (held.table, held.window.start, held.clock, held.of_items) == ("shop.orders", day(2), day(2), False)
    clocks.complete(group("shop.orders", 4, 5))
    clocks.complete(group("shop.orders", 6, 7))
    assert clocks.waiting_windows == (held,)
    passed_it = SourceClocks(work_of([collect("shop.orders")], connections=FakeConnections(day(9))), day(10))
    passed_it.complete(group("shop.orders", 1))
    assert passed_it.waiting_windows == ()


class Endpoint(FakeConnections):
    """Connections with one source that is sealed by each reader."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.source = RECEIVER.collector(Setting("shop", {"path": str(folder)}, folder, folder))

    def collector(self, name: str) -> Any:
        del name
        return self.source


def sealing(folder: Path, now: datetime, real: datetime) -> list[int]:
    work = work_of([collect("shop.orders")], connections=Endpoint(folder))
    work.ledger.now = lambda: real
    clocks = SourceClocks(work, now)
    taken = [(one.label - day(0)).days for one in clocks.complete(group("shop.orders", 1, 2, 3)).batches]
    assert not any(held.of_items for held in clocks.waiting_windows)
    return taken


def test_a_source_that_is_sealed_is_complete_up_to_now_however_idle(tmp_path: Path) -> None:
    assert sealing(tmp_path, day(3), day(9)) == [1, 2]


def test_no_source_is_sealed_in_the_future(tmp_path: Path) -> None:
    assert sealing(tmp_path, day(9), day(2)) == [1]
    assert find_seal_time(tmp_path / "shop.orders") == day(2)


def test_a_replay_of_the_past_collects_items_sealed_up_to_its_now(tmp_path: Path) -> None:
    assert sealing(tmp_path, day(9), day(9)) == [1, 2, 3]
    assert sealing(tmp_path, day(2), day(9)) == [1]
