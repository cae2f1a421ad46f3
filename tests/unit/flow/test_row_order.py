"""The types with an order are those that Spark can sort."""

from __future__ import annotations

import pytest

from waterclock.flow.column_types import type_of
from waterclock.flow.row_order import has_bounds, has_order


@pytest.mark.parametrize("text", ["BIGINT", "STRING", "BINARY", "ARRAY<INT>", "STRUCT<a: INT, b: ARRAY<STRING>>"])
def test_types_with_an_order(text: str) -> None:
    type_ = type_of(text)
    assert type_ is not None
    assert has_order(type_)


@pytest.mark.parametrize(
    "text", ["MAP<STRING, INT>", "ARRAY<MAP<INT, INT>>", "STRUCT<a: INT, b: STRUCT<c: ARRAY<MAP<INT, INT>>>>"]
)
def test_a_map_has_none_nor_has_a_value_that_contains_one(text: str) -> None:
    type_ = type_of(text)
    assert type_ is not None
    assert not has_order(type_)


def test_types_with_bounds_in_the_log() -> None:
    bounded, others = ("BIGINT", "DECIMAL(9, 2)", "DATE"), ("BOOLEAN", "BINARY", "ARRAY<INT>", "STRUCT<a: INT>")
    for text in (*bounded, *others):
        type_ = type_of(text)
        assert type_ is not None
        assert has_bounds(type_) == (text in bounded)
