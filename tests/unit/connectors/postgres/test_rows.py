"""Texts of the server are converted to columns of the declared types."""

from __future__ import annotations

from typing import Any

import pytest

from waterclock.connectors.arrow_values import Times
from waterclock.connectors.column_matching import CollectedColumn
from waterclock.connectors.postgres.database import PostgresDatabase
from waterclock.connectors.postgres.extract import PostgresExtract, PostgresRequestedColumn
from waterclock.connectors.postgres.rows import parse_texts
from waterclock.connectors.postgres.types import PostgresColumn
from waterclock.errors import WaterclockError


def read(kind: str, wanted: str, *texts: str | None) -> list[Any]:
    column = PostgresColumn("x", kind, None, is_array=wanted.startswith("ARRAY"))
    asked = PostgresRequestedColumn(CollectedColumn("x", "x", wanted, is_typed=True), column)
    extract = PostgresExtract(PostgresDatabase("host=here", "db", "db"), "db.t", "t", (asked,), Times())
    return [row["x"] for row in parse_texts([[text] for text in texts], extract).to_pylist()]


def test_bytes_in_an_array_are_decoded_as_others_are() -> None:
    assert read("bytea", "BINARY", "\\x00ff", None, "\\x") == [b"\x00\xff", None, b""]
    arrays = read("bytea", "ARRAY<BINARY>", '["\\\\x00ff", null, "\\\\x"]', None, "[]")
    assert arrays == [[b"\x00\xff", None, b""], None, []]
    assert read("text", "ARRAY<BINARY>", '["\\\\x00ff"]') == [[b"\\x00ff"]]


@pytest.mark.parametrize(
    ("kind", "wanted", "text"),
    [("bytea", "ARRAY<BINARY>", '[["\\\\x00"]]'), ("numeric", "ARRAY<BIGINT>", "[1" + "0" * 30 + "]")],
)
def test_an_element_that_does_not_fit_is_refused(kind: str, wanted: str, text: str) -> None:
    with pytest.raises(WaterclockError, match="x holds") as refused:
        read(kind, wanted, text)
    assert refused.value.code == "E812"
