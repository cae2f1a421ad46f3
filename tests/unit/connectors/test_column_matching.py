from __future__ import annotations

import pytest

from waterclock.connectors.column_matching import MOST_COLUMNS, SourceColumn, match
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


def test_a_reserved_source_column_is_refused_if_the_column_list_is_open() -> None:
    for name in ("_waterclock_unread", "_Waterclock_x"):
        with pytest.raises(WaterclockError, match=f"E614 {name} is a reserved name"):
            match(declared(("a", None)), found("a", name), where="x")
        assert match(declared(("a", None), is_open=False), found("a", name), where="x").left_out == (name,)


def test_columns_without_a_declared_type_have_the_sources_type() -> None:
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
def test_columns_whose_names_are_equal_for_a_table_are_refused(names: tuple[str, str]) -> None:
    with pytest.raises(WaterclockError, match="E808"):
        match(declared(), found(*names), where="x")


def test_the_sources_own_timelabel_is_not_taken() -> None:
    assert [one.name for one in match(declared(), found("a", "TimeLabel"), where="x").taken] == ["a"]


def test_source_column_names_are_converted_to_valid_column_names() -> None:
    assert column_name(" Dep Time (local) ") == "Dep_Time_local_"
    assert [one.name for one in match(declared(), found("a", "", "b;c"), where="x").taken] == ["a", "column_2", "b_c"]


def test_an_open_column_list_is_refused_above_the_maximum_number_of_columns() -> None:
    many = found(*(f"c{number}" for number in range(MOST_COLUMNS + 1)))
    assert len(match(declared(("c1", None)), many[:-1], where="x").taken) == MOST_COLUMNS
    with pytest.raises(WaterclockError, match="x would have 10,001 columns") as refused:
        match(declared(("c1", None)), many, where="x")
    assert refused.value.code == "E890"
    assert [each.name for each in match(declared(("c1", None), is_open=False), many, where="x").taken] == ["c1"]


def test_an_error_names_some_of_many_columns() -> None:
    many = found(*(f"column_{number}" for number in range(20_000)))
    with pytest.raises(WaterclockError) as refused:
        match(declared(("colum", None), is_open=False), many, where="x")
    assert str(refused.value.why).endswith("column_49 and 19,950 more")
