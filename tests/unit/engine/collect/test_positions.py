"""The range of a log for a label: the first one, the next one, or one that no label owns any more. No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import day
from tests.unit.engine.fakes import FakeConnections, collect, group, work_of
from waterclock.connectors.interface import Item, Positions
from waterclock.engine.collect.collect import item_to_dict
from waterclock.engine.collect.open_items import OpenItems
from waterclock.engine.collect.positions import find_open_ranges, find_rest, is_empty, range_to_dict, ranges_of
from waterclock.engine.continuous.appends import join_items
from waterclock.flow.enums import Batching
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window


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


def opened(
    *windows: int, known: Mapping[int, dict[str, Any]], done: tuple[int, ...] = (), covered: tuple[int, ...] = ()
) -> tuple[dict[datetime, list[dict[str, Any]]], dict[datetime, set[str]], Grown]:
    """Return the ranges of open windows so far, and the names of the ranges that labels own or will own."""
    table, log = collect("web.clicks", batching=Batching.ARRIVAL_TIME), Grown()
    work = work_of([table], connections=log)
    last = max(known, default=None)
    reads = SimpleNamespace(
        owned_items=lambda _, labels, __: (
            {day(at): (one,) for at, one in known.items() if day(at) in labels},
            None if last is None else (day(last), known[last]),
        ),
        newest=lambda _: SimpleNamespace(label=day(max(done))) if done else None,
        table=lambda _: SimpleNamespace(start=day(0)),
    )
    work.ledger = SimpleNamespace(reads=reads)
    settled = IntervalSet.from_intervals([(day(at), day(at + 1)) for at in (*done, *covered)])
    opened_windows = [Window(day(at), day(at + 1)) for at in windows]
    found = find_open_ranges(work, table, opened_windows, [day(at) for at in known], day(0), settled)
    assert found is not None
    owned = {label: [range_to_dict(one) for one in items] for label, items in found.owned.items()}
    return owned, {label: set(names) for label, names in found.names.items()}, log


FIRST, SECOND = item(1, p0=(0, 10)), item(2, p0=(10, 90), p1=(0, 9))


def test_an_open_window_has_the_records_after_the_last_range_once_all_earlier_batches_are_claimed() -> None:
    assert opened(1, known={0: FIRST})[0] == {day(1): [SECOND]}  # the batch of 0 runs, failed or is held
    assert opened(1, known={0: FIRST}, done=(0,))[0] == {day(1): [SECOND]}
    assert opened(0, known={})[0] == {day(0): [item(1, p0=(0, 90), p1=(0, 9))]}
    assert opened(3, known={0: FIRST}, done=(0, 1, 2))[0] == {day(3): [SECOND]}  # nothing came in two windows
    assert opened(2, known={0: FIRST}, done=(0,), covered=(1,))[0] == {day(2): [SECOND]}  # one was skipped


def test_an_open_window_has_no_records_while_an_earlier_one_may_take_them() -> None:
    owned, names, log = opened(2, known={0: FIRST}, done=(0,))
    assert owned == {day(2): []}
    assert names == {day(0): {FIRST["name"]}, day(1): {SECOND["name"]}}
    assert log.firsts == []  # the log is not even asked
    assert opened(1, 2, known={0: FIRST}, done=(0,))[0] == {day(1): [SECOND], day(2): []}  # DELAY
    assert opened(1, known={})[0] == {day(1): []}  # nothing was ever collected


def test_a_window_that_was_claimed_early_has_the_records_that_it_owns() -> None:
    assert opened(1, known={0: FIRST, 1: item(2, p0=(10, 20))}, done=(0,))[0] == {day(1): [item(2, p0=(10, 20))]}


def test_rows_of_a_range_that_another_label_owns_are_not_kept() -> None:
    table, log = collect("web.clicks", batching=Batching.ARRIVAL_TIME), Grown()
    work = work_of([table], connections=log)
    owned: dict[datetime, tuple[dict[str, Any], ...]] = {}
    reads = SimpleNamespace(
        owned_items=lambda *_: (owned, None if not owned else (day(0), owned[day(0)][0])),
        newest=lambda _: None,
        table=lambda _: SimpleNamespace(start=day(0)),
    )
    work.ledger = SimpleNamespace(reads=reads)
    windows, skipped = [Window(day(1), day(2))], IntervalSet.from_intervals([(day(0), day(1))])
    before = find_open_ranges(work, table, windows, [], day(0), skipped)
    assert before is not None
    [read] = before.owned[day(1)]
    for covered in (IntervalSet(), IntervalSet.from_intervals([(day(0), day(1))])):  # a user retried 0; then it is done
        after = find_open_ranges(work, table, windows, [day(1)], day(0), covered)
        assert after is not None
        items = OpenItems(after.owned, after.names)
        assert not items.can_keep(day(1), [range_to_dict(read)])
        assert items.can_keep(day(1), [])
        owned = {day(0): (range_to_dict(read),)}


def test_a_range_without_records_is_none_and_tables_of_other_sources_have_no_ranges() -> None:
    table, log = collect("web.clicks", batching=Batching.ARRIVAL_TIME), Grown(ends={"0": 0})
    work = work_of([table], connections=log)
    reads = SimpleNamespace(
        owned_items=lambda *_: ({}, None), newest=lambda _: None, table=lambda _: SimpleNamespace(start=day(0))
    )
    work.ledger = SimpleNamespace(reads=reads)
    window = Window(day(0), day(1))
    found = find_open_ranges(work, table, [window], [], day(0), IntervalSet())
    assert found is not None
    assert found.owned == {day(0): ()}
    assert find_open_ranges(work, collect("web.clicks"), [window], [], day(0), IntervalSet()) is None


def test_the_rest_of_a_range_begins_where_the_earlier_one_ended() -> None:
    read = Positions("log 1", {"0": (0, 7), "1": (5, 5)})
    rest = find_rest(Positions("log 1", {"0": (0, 9), "1": (5, 5), "2": (0, 3)}), read)
    assert rest == Positions("log 1", {"0": (7, 9), "1": (5, 5), "2": (0, 3)})
    same = find_rest(read, read)
    assert same is not None
    assert is_empty(same)
    for other in (
        Positions("log 2", {"0": (0, 9), "1": (5, 5)}),  # made anew
        Positions("log 1", {"0": (0, 6), "1": (5, 5)}),  # an end moved back
        Positions("log 1", {"0": (2, 9), "1": (5, 5)}),  # the beginning was deleted
        Positions("log 1", {"0": (0, 9)}),
        Positions("log 1", {"0": (0, 9), "1": (5, 5)}, gone={"0": (0, 1)}),
        Positions("log 1", {"0": (0, "9"), "1": (5, 5)}),  # texts have no known order
    ):
        assert find_rest(other, read) is None


def test_new_items_are_those_after_the_ones_that_were_read() -> None:
    files = [Item(f"f{at}", day(0), at, f"/landing/f{at}") for at in range(3)]
    dicts = [item_to_dict(each) for each in files]
    items = OpenItems({day(0): tuple(files)})
    assert items.after(day(0), []) == tuple(files)
    assert items.after(day(0), [dicts[1]]) == (files[0], files[2])
    assert items.after(day(0), [dicts[1] | {"size": 9}]) is None  # it grew
    assert items.after(day(0), [dicts[1] | {"name": "f9"}]) is None  # another label took it
    growing = replace(files[1], size=9, bytes_read=0)
    grown = OpenItems({day(0): (files[0], growing)})
    assert grown.after(day(0), [dicts[0], dicts[1]]) == (replace(growing, bytes_read=1),)
    assert grown.after(day(0), [dicts[0], dicts[1] | {"size": 10}]) is None  # it was cut
    assert grown.after(day(0), [dicts[1] | {"stamp": "2020"}]) is None
    assert join_items([dicts[1]], [item_to_dict(growing)]) == [dicts[1] | {"size": 9}]
    assert join_items([dicts[1]], [dicts[0], dicts[2]]) == [dicts[1], dicts[0], dicts[2]]


def test_new_records_continue_the_range_that_was_read() -> None:
    def ranges(low: int, high: int) -> Item:
        return Item("positions 1", day(0), 0, "topic", positions=Positions("log 1", {"0": (low, high)}))

    items = OpenItems({day(0): (ranges(3, 9),)}, {day(0): {"positions 1"}})
    read = range_to_dict(ranges(3, 5))
    assert items.after(day(0), [read]) == (ranges(5, 9),)
    assert items.after(day(0), [range_to_dict(ranges(3, 9))]) == ()
    assert join_items([read], [range_to_dict(ranges(5, 9))]) == [range_to_dict(ranges(3, 9))]
    assert join_items([], [read]) == [read]
