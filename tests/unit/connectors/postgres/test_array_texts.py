"""Array texts of the server are converted to the JSON that the server itself would write."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors.postgres.array_texts import json_of_array

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)


def _written(items: list[object]) -> str:
    def one(item: object) -> str:
        if item is None:
            return "NULL"
        if isinstance(item, list):
            return _written(item)
        return '"' + str(item).replace("\\", "\\\\").replace('"', '\\"') + '"'

    return "{" + ",".join(map(one, items)) + "}"


@given(st.lists(st.none() | TEXT) | st.lists(st.lists(st.none() | TEXT, min_size=1), min_size=1))
def test_texts_come_as_they_are(items: list[object]) -> None:
    assert json.loads(json_of_array(_written(items), "text")) == items


@pytest.mark.parametrize(
    ("text", "kind", "items"),
    [
        ("{}", "int4", []),
        ("{1,NULL,-3}", "int8", [1, None, -3]),
        ("{1.5,2}", "float8", [1.5, 2.0]),
        ("{t,f,NULL}", "bool", [True, False, None]),
        ('{abc,"NULL","a,b",null}', "text", ["abc", "NULL", "a,b", None]),
        ("[0:1]={7,8}", "int2", [7, 8]),
    ],
)
def test_elements_are_of_their_type(text: str, kind: str, items: list[object]) -> None:
    assert json.loads(json_of_array(text, kind)) == items


@pytest.mark.parametrize("text", ["", "{1", "{1}2", '{"a', "1"])
def test_a_malformed_array_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"array|int"):
        json_of_array(text, "int4")
