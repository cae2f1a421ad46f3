"""A manifest's ORDER BY bounds show which earlier deletes may sort after a new slice's rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.slices import hour, rows_of, sealed
from waterclock.flow.merge_settings import Merge, Temporal
from waterclock.storage.slices.order_bounds import fold_signature, is_measured_for, may_delete_later_row


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
    assert may_delete_later_row(delete_high, order_low, types) is expected


def test_nothing_beats_a_slice_without_rows_and_no_deletes_beat_nothing() -> None:
    assert not may_delete_later_row(None, text(1), ["long"])
    assert not may_delete_later_row(text(1), None, ["long"])


@pytest.mark.parametrize(("high", "expected"), [(4, False), (5, True), (6, True)])
def test_at_its_own_order_a_later_labels_delete_beats_too(high: int, expected: bool) -> None:
    assert may_delete_later_row(text(high), text(5), ["long"], is_later=True) is expected


def test_a_slice_is_measured_for_one_order_and_one_delete(tmp_path: Path) -> None:
    merge = Merge(("k",), ("n",), "gone")
    made = replace(sealed(str(tmp_path), hour(0), 1, rows_of(1)), measured_for=fold_signature(merge))
    assert is_measured_for(made, merge)
    assert is_measured_for(made, replace(merge, keys=("k", "l")))  # the bounds are those of all keys
    assert not is_measured_for(made, replace(merge, order_by=()))
    assert not is_measured_for(made, replace(merge, delete_when=None))
    assert not is_measured_for(made, replace(merge, calls="code of a function"))
    assert is_measured_for(replace(made, rows=0), replace(merge, delete_when=None))


def test_a_slice_of_versions_is_sealed_for_one_set_of_hidden_columns_and_functions(tmp_path: Path) -> None:
    temporal = Temporal(("k",), delete_when="is_gone(n)", calls="code of a function", untracked=("h",))
    made = replace(sealed(str(tmp_path), hour(0), 1, rows_of(1)), measured_for=fold_signature(temporal))
    assert is_measured_for(made, temporal)
    assert is_measured_for(made, replace(temporal, track=("n",)))  # the ledger compares it
    assert not is_measured_for(made, replace(temporal, untracked=()))
    assert not is_measured_for(made, replace(temporal, calls="other code"))
    assert is_measured_for(replace(made, measured_for=""), temporal)  # sealed before this was recorded
