"""Compatible schemas."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.slices import SCHEMA, hour, rows_of, schema_json, sealed
from waterclock.errors import WaterclockError
from waterclock.storage.schema_types import find_name_clashes, readable_as, schema_text, type_text, widen_schema
from waterclock.storage.slices.type_checks import check_files

ARRAY = {"type": "array", "elementType": "integer", "containsNull": True}


def schema_of(**types: Any) -> str:
    fields = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in types.items()]
    return json.dumps({"type": "struct", "fields": fields})


@pytest.mark.parametrize(
    ("file", "table", "fits"),
    [
        ("long", "long", True),
        ("integer", "long", True),
        ("long", "integer", False),
        ("float", "double", True),
        ("double", "float", False),
        ("integer", "double", False),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(12,2)", "decimal(10,2)", False),
        ("decimal(10,2)", "decimal(12,4)", False),
        ("string", "double", False),
        ("timestamp_ntz", "timestamp", False),
        (ARRAY, ARRAY | {"elementType": "long"}, True),
        (ARRAY, ARRAY | {"elementType": "string"}, False),
        (ARRAY, "string", False),
        (ARRAY | {"containsNull": False}, ARRAY, True),
    ],
)
def test_files_are_readable_as_the_same_type_or_a_wider_one(file: Any, table: Any, fits: bool) -> None:
    assert readable_as(file, table) is fits


def test_structs_fit_field_by_field() -> None:
    def struct(**types: Any) -> Any:
        return json.loads(schema_of(**types))

    assert readable_as(struct(a="integer"), struct(a="long", b="string"))
    assert not readable_as(struct(a="integer", c="string"), struct(a="long", b="string"))
    assert not readable_as(struct(A="integer"), struct(a="integer"))


def test_new_columns_come_last_and_nullable() -> None:
    table = schema_text(schema_of(a="long"))
    new = schema_of(b="string", A="long").replace('"nullable": true', '"nullable": false')
    wide = widen_schema(table, new)
    assert wide is not None
    assert [(f["name"], f["nullable"]) for f in json.loads(wide)["fields"]] == [
        ("timelabel", True),
        ("a", True),
        ("b", True),
    ]
    assert widen_schema(wide, new) is None


def test_timelabel_is_the_first_column_and_metadata_and_not_null_are_removed() -> None:
    text = schema_text('{"type":"struct","fields":[{"name":"a","type":"long","nullable":false,"metadata":{"x":1}}]}')
    assert json.loads(text)["fields"] == [
        {"name": "timelabel", "type": "string", "nullable": True, "metadata": {}},
        {"name": "a", "type": "long", "nullable": True, "metadata": {}},
    ]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["a", "b"], []),
        (["a", "A"], [("a", "A")]),
        (["a", "a"], [("a", "a")]),
        (["a", "b", "A", "B"], [("a", "A"), ("b", "B")]),
    ],
)
def test_names_clash_whatever_their_case(names: list[str], found: list[tuple[str, str]]) -> None:
    assert find_name_clashes(names) == found


def test_types_are_written_as_in_spark() -> None:
    nested = {"type": "map", "keyType": "string", "valueType": ARRAY, "valueContainsNull": True}
    assert type_text(nested) == "map<string,array<int>>"


def test_a_column_of_other_case_is_refused(tmp_path: Path) -> None:
    manifest = sealed(str(tmp_path), hour(0), 1, rows_of(1))
    other = schema_json(SCHEMA).replace('"name":"id"', '"name":"ID"')
    with pytest.raises(WaterclockError, match=r"E617.*column id is written ID in the table"):
        check_files(manifest, other)


def test_an_unknown_column_is_refused(tmp_path: Path) -> None:
    manifest = sealed(str(tmp_path), hour(0), 1, rows_of(1))
    with pytest.raises(WaterclockError, match=r"E617.*column name is unknown in the table"):
        check_files(manifest, schema_text(schema_of(id="long")))


def test_files_of_one_slice_that_differ_are_refused(tmp_path: Path) -> None:
    manifest = sealed(str(tmp_path), hour(0), 1, rows_of(1, 2), files=2)
    odd = replace(manifest.files[1], types={"timelabel": "string", "id": "long"})
    with pytest.raises(WaterclockError, match=r"E617.*its files differ"):
        check_files(replace(manifest, files=(manifest.files[0], odd)), schema_json(SCHEMA))


def test_nothing_is_not_null_within_nested_types() -> None:
    inner = {"name": "x", "type": ARRAY | {"containsNull": False}, "nullable": False, "metadata": {"c": 1}}
    nested = {
        "type": "map",
        "keyType": "string",
        "valueType": {"type": "struct", "fields": [inner]},
        "valueContainsNull": False,
    }
    found = json.loads(schema_text(schema_of(m=nested)))["fields"][1]["type"]
    assert found["valueContainsNull"] is True
    assert found["valueType"]["fields"] == [inner | {"type": ARRAY, "nullable": True, "metadata": {}}]
