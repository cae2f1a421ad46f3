"""Records along a path, as found in a file's head; another test compares with the records that Spark finds."""

from __future__ import annotations

from typing import Any

import pytest

from waterclock.connectors.files.json_records import find_records
from waterclock.connectors.files.reading_options import parse_read_options


@pytest.mark.parametrize(
    ("document", "rows", "outer", "records"),
    [
        ({"a": {"b": [{"x": 1}, {"y": 2}]}}, "a.b", "", [{"x": 1}, {"y": 2}]),
        ({"a": [{"b": {"x": 1}}, {"b": [{"x": 2}, None]}]}, "a.b", "", [{"x": 1}, {"x": 2}]),
        ({"a": [1, "t"]}, "a", "id", [{"value": 1, "id": None}, {"value": "t", "id": None}]),
        ({"a": []}, "a", "", []),
        ({"b": 1}, "a", "", [None]),
        ({"a": [{"c": 1}, {"b": {"x": 1}}]}, "a.b", "", [None, {"x": 1}]),
    ],
)
def test_records_lie_along_a_path(
    document: dict[str, Any], rows: str, outer: str, records: list[dict[str, Any] | None]
) -> None:
    assert list(find_records(document, parse_read_options({"rows": rows, "outer": outer}))) == records
