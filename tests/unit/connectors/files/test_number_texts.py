"""Numbers in the formats of options are parsed in Python as in Spark."""

from __future__ import annotations

import pytest

from waterclock.connectors.files.connector import CAPABILITIES
from waterclock.connectors.files.number_texts import is_number, normalize_number, normalize_number_sql
from waterclock.connectors.files.reading_options import parse_read_options


@pytest.mark.parametrize(
    ("options", "text", "plain"),
    [
        ({}, "7.25", "7.25"),
        ({"decimal": ","}, "7,25", "7.25"),
        ({"decimal": ","}, " -7,25 ", " -7.25 "),
        ({"decimal": ","}, "1e2", "1e2"),
        ({"decimal": ","}, "7.25", None),
        ({"decimal": ","}, "7,2,5", None),
        ({"decimal": ",", "thousands": "."}, "1.234.567,5", "1234567.5"),
        ({"decimal": ",", "thousands": "."}, "1234,5", "1234.5"),
        ({"decimal": ",", "thousands": "."}, "1.23,5", None),
        ({"decimal": ",", "thousands": "."}, "1.2345", None),
        ({"decimal": ",", "thousands": " "}, "1\u202f234\u00a0567,5", "1234567.5"),
        ({"thousands": "'"}, "1'234.5", "1234.5"),
        ({"thousands": ","}, "1,234", "1234"),
        ({"thousands": ","}, "٣", None),
    ],
)
def test_a_number_text_is_parsed_as_declared_or_is_none(options: dict[str, str], text: str, plain: str | None) -> None:
    assert normalize_number(text, parse_read_options(options)) == plain


def test_numbers_as_sql_writes_them_cost_nothing() -> None:
    assert normalize_number_sql("a", parse_read_options({})) == "a"
    assert [is_number(kind) for kind in ("DECIMAL(9, 2)", "double", "BIGINT", "DATE", "STRING", "MAP<INT,INT>")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"decimal": ",", "thousands": "."}, []),
        ({"decimal": ",", "thousands": " "}, []),
        ({"decimal": ",."}, ["decimal"]),
        ({"decimal": "5"}, ["decimal"]),
        ({"thousands": "-"}, ["thousands"]),
        ({"thousands": "."}, ["thousands"]),
        ({"decimal": ",", "thousands": ","}, ["thousands"]),
        ({"encoding": "windows-1252"}, []),
        ({"encoding": "UTF-17"}, ["encoding"]),
        ({"encoding": "base64"}, ["encoding"]),
    ],
)
def test_options_that_say_no_way_to_write_are_refused(options: dict[str, str], names: list[str]) -> None:
    assert CAPABILITIES.wrong_options is not None
    found = list(CAPABILITIES.wrong_options("collect", options, "a/*.csv"))
    assert [(wrong.code, wrong.option) for wrong in found] == [("E335", name) for name in names]
