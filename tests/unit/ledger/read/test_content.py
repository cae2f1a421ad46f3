from __future__ import annotations

from typing import Any

import pytest

from tests.ledgers import Desk, day, table
from waterclock.batches.records import Slice
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode
from waterclock.ledger.read import current, states
from waterclock.ledger.read.content import NOTHING, weight


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("core.r", mode=Mode.REPLACE))


def content(at_desk: Desk, low: float, high: float, name: str = "raw.a") -> str:
    return at_desk.ledger.reads.content(name, day(low), day(high))


def test_an_empty_interval_and_an_interval_of_nothing_are_nothing(at_desk: Desk) -> None:
    assert content(at_desk, 0, 5) == NOTHING
    at_desk.done("raw.a", 0)
    assert content(at_desk, 0, 0) == NOTHING
    assert content(at_desk, 1, 5) == NOTHING
    assert content(at_desk, 0, 1) != NOTHING


def test_equal_data_has_equal_content_however_often_it_is_made(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, 1)
    before = content(at_desk, 0, 2)
    at_desk.done("raw.a", 0, 1, restates="again")
    assert content(at_desk, 0, 2) == before


def test_a_changed_slice_changes_the_content_of_every_window_that_contains_it(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, 1, 2)
    whole, first = content(at_desk, 0, 3), content(at_desk, 0, 1)
    at_desk.done("raw.a", 1, digest="4:4:4", restates="again")
    assert content(at_desk, 0, 3) != whole
    assert content(at_desk, 0, 1) == first


def test_slices_that_change_places_are_other_content(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, digest="1:1:1")
    at_desk.done("raw.a", 1, digest="2:2:2")
    before = content(at_desk, 0, 2)
    at_desk.done("raw.a", 0, digest="2:2:2", restates="again")
    at_desk.done("raw.a", 1, digest="1:1:1", restates="again")
    assert content(at_desk, 0, 2) != before


def test_a_slice_without_rows_equals_no_slice(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, digest="0:0:0")
    assert content(at_desk, 0, 1) == NOTHING


def test_a_slice_without_a_digest_equals_itself_and_no_other_revision(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, digest=None)
    before = content(at_desk, 0, 1)
    assert content(at_desk, 0, 1) == before != NOTHING
    assert at_desk.done("raw.a", 0, digest=None, restates="again").changed == (day(0),)
    assert content(at_desk, 0, 1) != before


def test_a_replace_window_has_the_content_of_the_batch_that_covers_it(at_desk: Desk) -> None:
    at_desk.done("core.r", 2, stands_from=0, digest="2:2:2")
    at_desk.done("core.r", 5, stands_from=3, digest="5:5:5")
    contents = [content(at_desk, n, n + 1, "core.r") for n in range(7)]
    assert contents[0] == contents[1] == contents[2] != NOTHING
    assert contents[3] == contents[4] == contents[5] not in {NOTHING, contents[0]}
    assert contents[6] == NOTHING
    assert content(at_desk, -1, 0, "core.r") == NOTHING


def test_many_intervals_are_found_as_one_by_one(at_desk: Desk) -> None:
    for number in (0, 1, 2, 5, 6):
        at_desk.done("raw.a", number, digest=f"{number + 1}:3:4")
    at_desk.done("core.r", 2, stands_from=0)
    at_desk.done("core.r", 7, stands_from=4, digest="7:7:7")
    wanted = [("raw.a", low, high) for low in range(8) for high in range(low, 8)]
    wanted += [("core.r", low, low + 1) for low in range(9)]
    pins = at_desk.ledger.reads.pins([(name, day(low), day(high)) for name, low, high in wanted])
    assert [pin.content for pin in pins] == [content(at_desk, low, high, name) for name, low, high in wanted]
    assert [[piece.label for piece in pin.slices] for pin in pins if pin.table == "raw.a"] == [
        [day(number) for number in (0, 1, 2, 5, 6) if low <= number < high]
        for name, low, high in wanted
        if name == "raw.a"
    ]


def test_many_intervals_that_share_slices_read_each_once(at_desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        at_desk.done("raw.a", number)
    made: list[Any] = []
    kept = states.slice_of

    def noted(row: Any) -> Slice:
        made.append(row)
        return kept(row)

    monkeypatch.setattr(current, "slice_of", noted)
    pins = at_desk.ledger.reads.pins([("raw.a", day(0), day(number)) for number in range(1, 21)])
    assert [len(pin.slices) for pin in pins] == list(range(1, 21))
    assert len(made) == 20


def test_content_of_an_unknown_table_is_refused(at_desk: Desk) -> None:
    with pytest.raises(WaterclockError, match=r"no table raw\.b") as refused:
        content(at_desk, 0, 1, "raw.b")
    assert refused.value.code == "E412"


def test_weights_are_halves_of_32_bits() -> None:
    halves = [half for n in range(1000) for half in weight(day(n), f"{n + 1}:1:1", n + 1, n)]
    assert all(0 <= half < 2**32 for half in halves)
    assert max(halves) > 2**31
    assert len(set(halves)) > 1990


def test_pins_bind_place_version_and_slices(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, 1)  # version 1
    at_desk.done("raw.a", 2)  # version 2
    at_desk.done("core.r", 0)  # version 3
    at_desk.done("core.r", 1)  # version 4
    whole, state, none, early = at_desk.ledger.reads.pins(
        [
            ("raw.a", day(1), day(3)),
            ("core.r", day(0), day(1)),
            ("core.r", day(1), day(1)),
            ("core.r", day(-1), day(0)),
        ]
    )
    assert (whole.location, whole.version, [piece.label for piece in whole.slices]) == (
        "tables/raw/a",
        2,
        [day(1), day(2)],
    )
    assert (state.version, [piece.label for piece in state.slices]) == (3, [day(0)])
    assert (none.version, none.slices, none.content) == (-1, (), NOTHING)
    assert (early.version, early.slices, early.content) == (-1, (), NOTHING)
