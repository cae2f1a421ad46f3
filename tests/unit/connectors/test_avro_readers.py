"""Avro types that contain themselves are distinguished from types that are only used again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from waterclock.connectors.avro_readers import is_recursive, parse_schema


def record(name: str, *types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{at}", "type": each} for at, each in enumerate(types)]
    return {"type": "record", "name": name, "namespace": "n", "fields": fields}


ENUM = {"type": "enum", "name": "e", "symbols": ["A"]}
FIXED = {"type": "fixed", "name": "x", "size": 2}
DAY = {"type": "int", "logicalType": "date", "values": ["r"], "items": "r"}


@pytest.mark.parametrize(
    "schema",
    [
        record("r", "int", DAY, ENUM, FIXED, "e", "x", ["null", "e"], {"type": "map", "values": "n.e"}),
        record("r", record("s", "long"), "s", {"type": "array", "items": "s"}, ["null", "s"]),
        [record("s", "long"), record("r", "n.s")],
    ],
)
def test_types_that_are_used_again_are_not_recursive(schema: Any) -> None:
    assert not is_recursive(parse_schema(json.dumps(schema)))


@pytest.mark.parametrize(
    "schema",
    [
        record("r", "r"),
        record("r", ["null", "n.r"]),
        record("r", {"type": "array", "items": "r"}),
        record("r", {"type": "map", "values": ["null", "r"]}),
        record("r", record("s", ["null", "r"]), "s"),
        record("q", record("r", "int"), record("s", record("t", ["null", "s"]))),
        [record("s", "long"), record("r", "n.s", ["null", "r"])],
    ],
)
def test_types_that_contain_themselves_are_recursive(schema: Any) -> None:
    assert is_recursive(parse_schema(json.dumps(schema)))
