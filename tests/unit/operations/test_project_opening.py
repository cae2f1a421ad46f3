from __future__ import annotations

import pytest

from tests.model.flows import collect, flow, transform
from waterclock.errors import WaterclockError
from waterclock.operations.project_opening import select_tables

FLOW = flow(collect("raw.a"), collect("raw.b"), transform("clean.a", ["raw.a"]))


def refused(tables: list[str], labels: str) -> WaterclockError:
    with pytest.raises(WaterclockError) as caught:
        select_tables(FLOW, tables, labels)
    assert caught.value.code == "E512"
    return caught.value


@pytest.mark.parametrize("second", ["raw.b", "clean.*", "+clean.a", "raw.b@2013-01-05"])
def test_a_second_table_in_place_of_labels_is_refused_with_the_syntax_for_several_tables(second: str) -> None:
    error = refused(["raw.a"], second)
    assert f"'raw.a {second}'" in str(error.fix)
    assert select_tables(FLOW, [f"raw.a {second}"])[0].tables


def test_an_argument_that_is_no_table_and_no_label_is_refused_with_the_forms_of_labels() -> None:
    assert "2013-01-05" in str(refused(["raw.a"], "raw.x").why)
