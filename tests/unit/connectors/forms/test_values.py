from __future__ import annotations

import pytest

from waterclock.connectors.forms.values import InvalidValue, parse_value
from waterclock.flow.forms import FormField


@pytest.mark.parametrize(
    ("kind", "entered", "stored"),
    [
        ("STRING", "  a b ", "a b"),
        ("STRING", "two\r\nlines", "two\nlines"),
        ("STRING", "שלום", "שלום"),
        ("STRING", " \n", None),
        ("INT", "+007", "7"),
        ("INT", "1 234 567", "1234567"),
        ("INT", "1\u00a0000", "1000"),
        ("INT", "1e3", "1000"),
        ("TINYINT", "-128", "-128"),
        ("BIGINT", "9223372036854775807", "9223372036854775807"),
        ("DECIMAL(5,2)", "1.5", "1.50"),
        ("DECIMAL(5,2)", "-0", "0.00"),
        ("DECIMAL(38,0)", "12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
        ("DECIMAL(38,10)", "1234567890123456789012345678.0000000001", "1234567890123456789012345678.0000000001"),
        ("DOUBLE", "1e5", "100000.0"),
        ("DOUBLE", "-0", "0.0"),
        ("FLOAT", "3.4028234e38", "3.4028234e+38"),
        ("BOOLEAN", "Yes", "true"),
        ("DATE", "2024-02-29", "2024-02-29"),
        ("TIMESTAMP", "2026-07-01 12:00", "2026-07-01 10:00:00Z"),
        ("TIMESTAMP", "2026-07-01T12:00:00.5+00:00", "2026-07-01 12:00:00.500000Z"),
    ],
)
def test_a_value_is_stored_as_one_text(kind: str, entered: str, stored: str | None) -> None:
    field = FormField("a", kind)
    assert parse_value(field, entered, "Europe/Berlin") == stored
    assert parse_value(field, stored, "Europe/Berlin") == stored


@pytest.mark.parametrize(
    ("kind", "entered", "why"),
    [
        ("STRING", "a\0b", "a control character"),
        ("STRING", "\ud800", "a control character"),
        ("STRING", "x" * 10_001, "at most 10000"),
        ("INT", "1.5", "not a whole number"),
        ("INT", "2147483648", "not between"),
        ("INT", "1,5", "not a number; decimals are separated by a point$"),
        ("INT", "1,234", "separated by a point: enter 1234$"),
        ("DOUBLE", "1,5", "separated by a point: enter 1.5$"),
        ("DECIMAL(9,2)", "-1 234,50", "separated by a point: enter -1234.50$"),
        ("DOUBLE", "1,234", "separated by a point: enter 1.234 or 1234$"),
        ("DOUBLE", "a,b", "not a number; decimals are separated by a point$"),
        ("INT", "12 34", "not a number"),
        ("INT", "٣", "not a number"),
        ("BIGINT", "1e999", "not between"),
        ("DECIMAL(5,2)", "1.005", "more digits"),
        ("DECIMAL(5,2)", "1000", "more digits"),
        ("DOUBLE", "1e999", "too large"),
        ("FLOAT", "1e39", "too large"),
        ("DOUBLE", "NaN", "not a number"),
        ("BOOLEAN", "1", "neither true nor false"),
        ("DATE", "2023-02-29", "not a date"),
        ("DATE", "01.02.2023", "not a date"),
        ("TIMESTAMP", "12:00", "not a time"),
        ("TIMESTAMP", "2026-07-01 25:00", "not a time"),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_refused(kind: str, entered: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        parse_value(FormField("a", kind), entered, "UTC")


def test_a_decimal_comma_is_a_choice() -> None:
    assert parse_value(FormField("a", "DECIMAL(9,2)"), "1.234,5", "UTC", decimal_comma=True) == "1234.50"
    with pytest.raises(InvalidValue):
        parse_value(FormField("a", "DECIMAL(9,2)"), "1,234.5", "UTC", decimal_comma=True)


def test_a_choice_is_one_of_those_declared() -> None:
    field = FormField("kind", "STRING", choices=("raw", "finished"))
    assert parse_value(field, " raw ", "UTC") == "raw"
    with pytest.raises(InvalidValue, match="none of raw, finished"):
        parse_value(field, "other", "UTC")
