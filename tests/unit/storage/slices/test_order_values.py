"""A manifest's ORDER BY bounds tell which earlier deletes may beat a new slice's rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from waterclock.storage.slices.order_values import may_beat


def text(*values: Any) -> str:
    return json.dumps({f"o{index}": value for index, value in enumerate(values)})


@pytest.mark.parametrize(
    ("types", "delete_high", "order_low", "expected"),
    [
        (["long"], text(5), text(4), True),
        (["long"], text(5), text(5), False),
        (["long"], text(5), text(6), False),
        (["long"], text(None), text(6), False),
        (["long"], text(5), text(None), True),
        (["long"], '{"o0":9007199254740993}', '{"o0":9007199254740992}', True),
        (["decimal(30,2)"], '{"o0":10.00}', '{"o0":9.99}', True),
        (["double"], text("NaN"), text(1e300), True),
        (["double"], text("Infinity"), text("NaN"), False),
        (["double"], text("-Infinity"), text(0), False),
        (["timestamp"], text("2018-01-01T00:00:00.000001Z"), text("2018-01-01T00:00:00.000000Z"), True),
        (["timestamp"], text("+10000-01-01T00:00:00.000000Z"), text("+20000-01-01T00:00:00.000000Z"), True),
        (["string"], text("-b"), text("a"), False),
        (["boolean"], text(True), text(False), True),
        (["long", "string"], text(5, "a"), text(5, "b"), False),
        (["long", "string"], text(5, "c"), text(5, "b"), True),
        (["long", "string"], text(4, "c"), text(5, "b"), False),
        ([{"type": "array", "elementType": "long"}], text([1]), text([2]), True),
    ],
)
def test_deletes_beat_only_rows_ordered_below_them(
    types: list[Any], delete_high: str, order_low: str, expected: bool
) -> None:
    assert may_beat(delete_high, order_low, types) is expected


def test_nothing_beats_a_slice_without_rows_and_no_deletes_beat_nothing() -> None:
    assert not may_beat(None, text(1), ["long"])
    assert not may_beat(text(1), None, ["long"])


@pytest.mark.parametrize(("high", "expected"), [(4, False), (5, True), (6, True)])
def test_at_its_own_order_a_later_labels_delete_beats_too(high: int, expected: bool) -> None:
    assert may_beat(text(high), text(5), ["long"], is_later=True) is expected
