"""JSON keys are found in any spelling and any amount of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from waterclock.connectors.files import error_positions, file_schemas
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.testing.connectors import declared


@pytest.mark.parametrize("is_much", [False, True])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"UserId": 1}\n', ["UserId"]),
        ('{"userid" : 1}\n', ["userid"]),
        ('{"x": 1}\n{"USERID": 1}\n', ["USERID", "x"]),
    ],
)
def test_a_closed_list_finds_its_columns_in_much_json_as_in_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_much: bool, text: str, found: list[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)

    def keys_of_many(_: str, paths: Sequence[str]) -> Mapping[str, str]:
        return dict.fromkeys(file_schemas._json_keys(paths, ReadOptions()), "STRING")

    if is_much:
        monkeypatch.setattr(file_schemas, "_MOST_PARSED", 0)
    columns = declared(("userid", "INT"), is_open=False)
    (shape,) = file_schemas.shapes_of([str(path)], ReadOptions(), columns, keys_of_many=keys_of_many)
    assert [one.name for one in shape.found] == found


def test_much_json_that_is_spelt_as_declared_is_not_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "at": 2}\n')
    monkeypatch.setattr(file_schemas, "_MOST_PARSED", 0)

    def never(_: str, paths: Sequence[str]) -> Mapping[str, str]:
        raise AssertionError(paths)

    columns = declared(("id", "INT"), ("at", "INT"), is_open=False)
    (shape,) = file_schemas.shapes_of([str(tmp_path / "a.jsonl")], ReadOptions(), columns, keys_of_many=never)
    assert [one.name for one in shape.found] == ["id", "at"]


def test_a_line_that_is_nested_too_deep_is_left_to_spark_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"deep": ' + "[" * 1000 + "]" * 1000 + "}\n")
    (shape,) = file_schemas.shapes_of([str(tmp_path / "a.jsonl")], ReadOptions(), declared())
    assert [one.name for one in shape.found] == ["id"]
    told = error_positions._find_broken_rows(
        error_positions._check_rows(str(tmp_path / "a.jsonl"), ReadOptions(), declared())
    )
    assert (told.lines, told.why) == ([2], "it is nested too deep")
