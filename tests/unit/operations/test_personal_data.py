"""Fields within structs are found by their names, also by any names in files."""

from __future__ import annotations

import pytest

from waterclock.operations.personal_data import list_named_fields


@pytest.mark.parametrize(
    ("type_name", "fields"),
    [
        ("struct<email:string,b:int>", [("email", "string"), ("b", "int")]),
        ("array<struct<`first name` : string, a: struct<zip:int>>>",
         [("first name", "string"), ("a", "struct"), ("zip", "int")]),
        (f"struct<a:int,{chr(160) * 100_000}>", [("a", "int")]),
        (f"struct<a:int,{'x ' * 50_000}>", [("a", "int")]),
    ],
    ids=["plain", "nested", "blanks", "words"],
)  # fmt: skip
def test_fields_of_structs_are_found_in_linear_time(type_name: str, fields: list[tuple[str, str]]) -> None:
    assert list_named_fields(type_name) == fields
