from __future__ import annotations

import pytest

from waterclock.connectors.column_matching import SourceColumn, match
from waterclock.errors import WaterclockError
from waterclock.spark_sql import column_name
from waterclock.testing.connectors import declared


def found(*names: str) -> list[SourceColumn]:
    return [SourceColumn(name) for name in names]


def test_named_columns_come_first_and_the_rest_as_in_the_source() -> None:
    matched = match(declared(("c", "INT"), ("a", None)), found("a", "b", "c", "d"), where="x")
    assert [(one.name, one.type) for one in matched.taken] == [
        ("c", "INT"),
        ("a", "STRING"),
        ("b", "STRING"),
        ("d", "STRING"),
    ]


def test_a_closed_list_leaves_out_the_rest() -> None:
    matched = match(declared(("b", None), is_open=False), found("a", "b", "c"), where="x")
    assert [one.name for one in matched.taken] == ["b"]
    assert matched.left_out == ("a", "c")


def test_the_sources_types_hold_where_none_is_said() -> None:
    matched = match(declared(("a", None)), [SourceColumn("a", "BIGINT"), SourceColumn("b", "DATE")], where="x")
    assert [one.type for one in matched.taken] == ["BIGINT", "DATE"]


def test_a_name_is_found_whatever_its_case_and_spelled_as_declared() -> None:
    (taken,) = match(declared(("Carrier", None)), found("CARRIER"), where="x").taken
    assert (taken.source, taken.name) == ("CARRIER", "Carrier")


def test_all_lost_columns_are_named_at_once() -> None:
    with pytest.raises(WaterclockError) as caught:
        match(declared(("carier", None), ("dest", None)), found("carrier", "origin"), where="raw.flights")
    assert caught.value.code == "E805"
    assert caught.value.what == "raw.flights has no columns carier, dest"
    assert caught.value.fix == "did you mean carrier?"


@pytest.mark.parametrize("names", [("a", "A"), ("a", "a"), ("a b", "a_b"), ("x", "x ")])
def test_columns_that_a_table_cannot_tell_apart_are_refused(names: tuple[str, str]) -> None:
    with pytest.raises(WaterclockError, match="E808"):
        match(declared(), found(*names), where="x")


def test_the_sources_own_timelabel_is_not_taken() -> None:
    assert [one.name for one in match(declared(), found("a", "TimeLabel"), where="x").taken] == ["a"]


def test_names_become_what_a_table_can_bear() -> None:
    assert column_name(" Dep Time (local) ") == "Dep_Time_local_"
    assert [one.name for one in match(declared(), found("a", "", "b;c"), where="x").taken] == ["a", "column_2", "b_c"]
