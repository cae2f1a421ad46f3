from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Place
from waterclock.specs.document import TableCell
from waterclock.specs.values import are_equal, text_of, value_of


def cell(text: str) -> TableCell:
    return TableCell(text, Place("a.feature", 4, 7))


@pytest.mark.parametrize(
    ("text", "type_name", "value"),
    [
        ("20", "int", 20),
        ("-5", "bigint", -5),
        ("1.50", "decimal(10,2)", Decimal("1.50")),
        ("1.5", "double", 1.5),
        ("20", "double", 20.0),
        ("true", "boolean", True),
        ("FALSE", "boolean", False),
        ("2013-01-05", "date", date(2013, 1, 5)),
        ("2013-01-05", "timestamp", datetime(2013, 1, 5, tzinfo=UTC)),
        ("2013-01-05 06:30", "timestamp", datetime(2013, 1, 5, 6, 30, tzinfo=UTC)),
        ("2013-01-05T06:30:00-05:00", "timestamp", datetime(2013, 1, 5, 11, 30, tzinfo=UTC)),
        ("2013-01-05 06:30", "timestamp_ntz", datetime(2013, 1, 5, 6, 30)),  # noqa: DTZ001 - it has no zone
        ("AA", "string", "AA"),
        ('"NULL"', "string", "NULL"),
        ('""', "string", ""),
        ('" a "', "string", " a "),
        ("", "string", None),
        ("NULL", "int", None),
        ('["a", "b"]', "array<string>", ["a", "b"]),
        ('{"a": 1}', "struct<a:int>", {"a": 1}),
        ('[{"a": 12345678901234567.89}]', "array<struct<a:decimal(38,2)>>", [{"a": Decimal("12345678901234567.89")}]),
        ("[1e-7, 2]", "array<double>", [Decimal("1e-7"), 2]),
        ("ab", "binary", b"ab"),
    ],
)
def test_a_cell_is_a_value_of_its_type(text: str, type_name: str, value: Any) -> None:
    assert value_of(cell(text), "c", type_name) == value


@pytest.mark.parametrize(
    ("text", "type_name", "fix"),
    [
        ("many", "int", "write it like 12; a missing value is empty or NULL"),
        ("1.5", "int", "write it like 12; a missing value is empty or NULL"),
        ("3000000000", "int", "write it like 12; a missing value is empty or NULL"),
        ("maybe", "boolean", "write it like true or false; a missing value is empty or NULL"),
        ("5.1.2013", "date", "write it like 2013-01-05; a missing value is empty or NULL"),
        (
            "noon",
            "timestamp",
            "write it like 2013-01-05 06:30 or 2013-01-05T06:30:00-05:00; a missing value is empty or NULL",
        ),
        ("x", "decimal(10,2)", "a missing value is empty or NULL"),
        (
            "[a]",
            "array<string>",
            'write it like JSON, such as [1, 2] or {"a": 1}; a missing value is empty or NULL',
        ),
    ],
)
def test_a_cell_that_is_no_value_of_its_type_is_refused(text: str, type_name: str, fix: str) -> None:
    with pytest.raises(WaterclockError) as raised:
        value_of(cell(text), "c", type_name)

    error = raised.value
    assert (error.code, error.where) == ("E355", "a.feature:4:7")
    assert error.what == f"{text!r} is not a valid {type_name.upper()}"
    assert (error.why, error.fix) == (f"the column c is {type_name.upper()}", fix)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        ("NULL", '"NULL"'),
        ("", '""'),
        (" a", '" a"'),
        ("a b", "a b"),
        (True, "true"),
        (3, "3"),
        (3.0, "3"),
        (0.1, "0.1"),
        (Decimal("1.50"), "1.50"),
        (date(2013, 1, 5), "2013-01-05"),
        (datetime(2013, 1, 5, 6, 30, tzinfo=UTC), "2013-01-05 06:30:00"),
        (b"ab", "ab"),
        (timedelta(days=1), "1 day, 0:00:00"),
        (["a", None], '["a", null]'),
        ([("k", 1)], '{"k": 1}'),
        ({"a": Decimal("1.5"), "t": date(2013, 1, 5)}, '{"a": 1.5, "t": "2013-01-05"}'),
        ([Decimal("12345678901234567.89"), {'"ü"': True}], '[12345678901234567.89, {"\\"ü\\"": true}]'),
    ],
)
def test_a_value_is_written_as_a_cell_has_it(value: Any, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize(
    ("expected", "got", "is_same"),
    [
        (None, None, True),
        (None, 0, False),
        (0, None, False),
        (0.3, 0.1 + 0.2, True),
        (3.0, 3.4, False),
        (float("nan"), float("nan"), True),
        (Decimal("1.5"), Decimal("1.50"), True),
        ("a", "a ", False),
        ({"a": 1, "b": [1.0]}, {"a": 1, "b": [1.0 + 1e-12]}, True),
        ({"k": 1}, [("k", 1)], True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [2, 1], False),
        ([12345678901], [12345678902], False),
        ({"id": 12345678901, "x": 2}, {"id": 12345678901, "x": 2.0 + 1e-12}, True),
        ([float("nan")], [float("nan")], True),
        ([1.5], [Decimal("1.50")], True),
        ([Decimal("1.5")], [Decimal("1.50")], True),
        ([Decimal("0.3")], [0.1 + 0.2], True),
        ([Decimal("12345678901234567.89")], [Decimal("12345678901234567.88")], False),
        ({"a": Decimal("0.12345678901234567890")}, {"a": Decimal("0.12345678901234567891")}, False),
        ([2.0, 3], [Decimal("2.00"), Decimal("3.00")], True),
        ([12345678901234567890], [Decimal(12345678901234567891)], False),
        ({}, [], True),
        ({"a": {}}, {"a": []}, True),
        ({"a": 1}, [], False),
        ({"a": True}, {"a": 1}, False),
    ],
)
def test_values_are_compared_as_people_mean_them(expected: Any, got: Any, is_same: bool) -> None:
    assert are_equal(expected, got) is is_same
