"""A window with AWAIT is collected once its source shows the signal, and fails when the wait has expired."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

import pytest

from tests.ledgers import day
from tests.unit.engine.fakes import FakeConnections, collect, group, work_of
from waterclock.engine.collect.await_signals import require_signs
from waterclock.engine.collect.source_clocks import SourceClocks
from waterclock.errors import WaterclockError
from waterclock.flow.awaits import Awaits
from waterclock.flow.declarations import Table, Unit
from waterclock.flow.enums import Batching, Mode, WindowSignal
from waterclock.planner.plan import Group
from waterclock.timelabel.duration import parse_duration
from waterclock.timelabel.window import Window

MARKER = Awaits(WindowSignal.MARKER, "_SUCCESS")


@dataclass
class Signed(FakeConnections):
    """A source that shows the signals of some days."""

    signs: frozenset[int] = frozenset()
    looks: list[int] = field(default_factory=list)

    def collector(self, name: str) -> Signed:
        del name
        return self

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        del unit, awaits, zone
        self.looks.append((window.start - day(0)).days)
        return self.looks[-1] in self.signs

    def schema(self, unit: Unit) -> None:
        del unit

    def explain(self, unit: Unit, columns: object, error: BaseException) -> None:
        del unit, columns, error


def awaiting(awaits: Awaits, *, is_ordered: bool = False, batching: Batching = Batching.DATA_TIME) -> Table:
    mode = Mode.MERGE if is_ordered else Mode.APPEND
    table = collect("shop.orders", batching=batching, mode=mode, partitioned=not is_ordered)
    assert table.source is not None
    return replace(table, source=replace(table.source, awaits=awaits))


def passed(table: Table, connections: Signed, *asked: Group, now: datetime) -> tuple[list[list[int]], SourceClocks]:
    clocks = SourceClocks(work_of([table], connections=connections), now)
    return [[(one.label - day(0)).days for one in clocks.complete(of).batches] for of in asked], clocks


def test_windows_without_a_signal_wait_and_the_oldest_is_reported() -> None:
    asked = Signed(day(2), signs=frozenset({1, 3}))
    labels, clocks = passed(awaiting(MARKER), asked, group("shop.orders", 1, 2, 3, 4), now=day(10))
    assert labels == [[1, 3]]  # a marker takes precedence over the source's clock
    [held] = clocks.waiting_windows
    assert (held.window.start, held.clock, held.awaits) == (day(2), None, MARKER)


def test_an_ordered_table_stops_at_the_first_waiting_window() -> None:
    asked = Signed(None, signs=frozenset({1, 3, 5}))
    groups = (group("shop.orders", 1, 2, 3), group("shop.orders", 5))
    for table in (awaiting(MARKER, is_ordered=True), awaiting(MARKER, batching=Batching.ARRIVAL_TIME)):
        assert passed(table, asked, *groups, now=day(10))[0] == [[1], []]
        assert table.source is not None
        given_up = replace(table, source=replace(table.source, awaits=replace(MARKER, within=parse_duration("1 DAY"))))
        without = Signed(None, signs=frozenset({5}))
        assert passed(given_up, without, *groups, now=day(10))[0] == [[1], []]


def test_a_window_that_awaits_the_next_file_also_waits_for_the_source_clock() -> None:
    awaits = Awaits(WindowSignal.NEXT)
    assert passed(
        awaiting(awaits), Signed(day(3), signs=frozenset({1, 2})), group("shop.orders", 1, 2, 3), now=day(10)
    )[0] == [[1, 2]]
    asked = Signed(day(3), signs=frozenset({1}))
    assert passed(awaiting(awaits), asked, group("shop.orders", 1, 2, 3), now=day(10))[0] == [[1]]
    assert 3 not in asked.looks


@pytest.mark.parametrize(("now", "labels"), [(day(4), []), (day(5), [2]), (day(6), [2, 3])])
def test_windows_past_their_await_limit_run_only_without_complete_windows(now: datetime, labels: list[int]) -> None:
    awaits = replace(MARKER, within=parse_duration("2 DAYS"))
    table = awaiting(awaits)
    assert passed(table, Signed(None), group("shop.orders", 2, 3), now=now)[0] == [labels]
    there = Signed(None, signs=frozenset({1}))
    assert passed(table, there, group("shop.orders", 1, 2, 3), now=now)[0] == [[1]]


def test_windows_that_are_read_without_their_sign_are_refused() -> None:
    table = awaiting(replace(MARKER, within=parse_duration("2 DAYS")))
    work = work_of([table], connections=Signed(None, signs=frozenset({1})))
    windows = [Window(day(at), day(at + 1)) for at in (1, 2)]
    require_signs(work, table, windows[:1])
    with pytest.raises(WaterclockError) as raised:
        require_signs(work, table, windows)
    error = raised.value
    assert (error.code, error.what, error.where) == (
        "E826", "the marker has not arrived within 2 DAYS", f"shop.orders@{windows[1].label}",
    )  # fmt: skip
    assert f"`waterclock skip shop.orders {windows[1].label} --why '…'`" in (error.fix or "")
    assert not error.transient


def test_a_recompute_from_stored_inputs_does_not_wait_for_a_signal() -> None:
    asked = group("shop.orders", 1, 2)
    kept = replace(asked, batches=tuple(replace(each, verb="recompute") for each in asked.batches))
    assert passed(awaiting(MARKER), Signed(None), kept, now=day(10))[0] == [[1, 2]]
