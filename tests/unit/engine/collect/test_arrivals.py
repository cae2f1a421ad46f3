"""No late item is lost: every item that arrived is collected by exactly one window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.ledgers import day
from waterclock.connectors.interface import Item, Listing
from waterclock.engine.collect.arrivals import assign_items, complete_until
from waterclock.engine.collect.source_clocks import filter_arrived
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window

NOTHING = IntervalSet.from_intervals([])


def window(number: int) -> Window:
    return Window(day(number), day(number + 1))


def item(name: str, stamp: float) -> Item:
    return Item(name, day(stamp), 1, f"new/{name}")


def sealed(low: float, high: float) -> IntervalSet:
    return IntervalSet.from_intervals([(day(low), day(high))])


def names(items: Iterable[Item]) -> str:
    return " ".join(found.name for found in items)


def taken(
    items: Sequence[Item], windows: Sequence[Window], done: IntervalSet = NOTHING, *, others: Sequence[Window] = ()
) -> dict[int, str]:
    found = assign_items(items, windows, done, others_open=others)
    return {(label - day(0)).days: names(of_window) for label, of_window in found.items()}


def test_an_item_belongs_to_the_window_of_its_stamp_and_a_window_without_items_has_none() -> None:
    items = [item("c", 2.5), item("a", 0), item("b", 0.999)]
    assert taken(items, [window(0), window(1), window(2)]) == {0: "a b", 1: "", 2: "c"}


def test_an_item_of_a_sealed_window_is_assigned_to_the_oldest_open_window() -> None:
    assert taken([item("late", 0.5), item("own", 2.5)], [window(1), window(2)], sealed(0, 1)) == {1: "late", 2: "own"}


def test_an_item_before_the_first_window_is_assigned_to_the_oldest_open_window() -> None:
    assert taken([item("early", -40.0)], [window(0), window(1)]) == {0: "early", 1: ""}


def test_an_item_of_an_open_window_outside_the_group_is_left_for_that_window() -> None:
    items = [item("late", 0.5), item("first", 1.5), item("second", 2.5)]
    assert taken(items, [window(2)], sealed(0, 1), others=[window(1)]) == {2: "second"}


def test_an_item_of_a_sealed_window_between_open_ones_is_assigned_to_the_oldest() -> None:
    assert taken([item("late", 1.5)], [window(0), window(2)], sealed(1, 2)) == {0: "late", 2: ""}


def test_an_item_stamped_after_the_last_window_waits_for_its_own() -> None:
    assert taken([item("future", 3.0)], [window(1), window(2)], sealed(0, 1)) == {1: "", 2: ""}


def test_items_of_a_window_are_ordered_by_stamp_and_name() -> None:
    assert taken([item("b", 0.5), item("a", 0.5), item("z", 0.25)], [window(0)]) == {0: "z a b"}


def test_without_windows_nothing_is_taken() -> None:
    assert taken([item("a", 0)], []) == {}


@given(
    stamps=st.lists(st.floats(-2, 6, allow_nan=False), max_size=12),
    cuts=st.lists(st.integers(1, 5), unique=True, max_size=4).map(sorted),
)
def test_windows_sealed_in_order_take_every_item_once(stamps: list[float], cuts: list[int]) -> None:
    """Items arrive between the runs; each run collects the windows up to a cut, as one group."""
    items = [item(f"i{number}", stamp) for number, stamp in enumerate(stamps)]
    begin, free = 0, list(items)
    seen: list[Item] = []
    for turn, cut in enumerate([*cuts, 7]):
        # half of the items arrive late: only the last run sees them
        visible = [one for number, one in enumerate(free) if turn == len(cuts) or number % 2]
        done = sealed(0, begin) if begin else NOTHING
        found = assign_items(visible, [window(number) for number in range(begin, cut)], done)
        for label, of_window in found.items():
            seen += of_window
            assert all(one.stamp < label + timedelta(days=1) for one in of_window)
        free = [one for one in free if one not in seen]
        begin = cut
        if begin == 7:
            break
    assert sorted(one.name for one in seen) == sorted(one.name for one in items)


def test_a_source_that_stamps_is_complete_up_to_the_second_after_its_newest_stamp() -> None:
    stamp = datetime(2013, 1, 1, 23, 59, 59, tzinfo=UTC)
    assert complete_until(stamp) == datetime(2013, 1, 2, tzinfo=UTC)


def test_a_replay_ignores_items_that_arrived_at_or_after_its_now() -> None:
    listing = Listing((item("a", 0.5), item("b", 1.0), item("c", 1.5)), ())
    assert names(filter_arrived(listing, day(1)).items) == "a"
