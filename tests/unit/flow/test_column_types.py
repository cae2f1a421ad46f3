"""Column types are parsed in every spelling."""

from __future__ import annotations

import json

import pytest

from waterclock.flow.column_types import Array, Dictionary, Member, Struct, text_of_type, type_of, type_of_json

SPELLED = [
    ("BIGINT", "long"),
    ("long", "long"),
    ("Decimal( 10 , 2 )", "decimal(10,2)"),
    ("DEC", "decimal(10,0)"),
    ("NUMERIC(5)", "decimal(5,0)"),
    ("VARCHAR(10)", "string"),
    ("TIMESTAMP_LTZ", "timestamp"),
    ("ARRAY<INT>", Array("integer")),
    ("MAP<STRING, ARRAY<INT>>", Dictionary("string", Array("integer"))),
    (
        "STRUCT<a: INT NOT NULL, `b c` STRING COMMENT 'x, y'>",
        Struct((Member("a", "integer", False), Member("b c", "string"))),
    ),
]


@pytest.mark.parametrize(("text", "meant"), SPELLED, ids=[text for text, _ in SPELLED])
def test_a_type_is_read_however_it_is_spelled_and_back(text: str, meant: object) -> None:
    found = type_of(text)
    assert found == meant
    assert found is not None
    assert type_of(text_of_type(found)) == meant


@pytest.mark.parametrize("text", ["", "INTERVAL", "money", "ARRAY<INT", "ARRAY", "STRUCT<a>", "INT INT", "INT;"])
def test_an_unknown_or_malformed_type_is_rejected(text: str) -> None:
    assert type_of(text) is None


def test_a_json_schema_is_parsed_into_the_same_types() -> None:
    said = """{"type":"struct","fields":[
        {"name":"a","type":"integer","nullable":false,"metadata":{}},
        {"name":"m","type":{"type":"map","keyType":"string","valueType":{"type":"array","elementType":"long",
            "containsNull":false},"valueContainsNull":true},"nullable":true,"metadata":{}}]}"""
    meant = Struct((Member("a", "integer", False), Member("m", Dictionary("string", Array("long", False)))))
    assert type_of_json(json.loads(said)) == meant
