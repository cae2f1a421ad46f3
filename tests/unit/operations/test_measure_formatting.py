"""Measures are printed as one line each, and profiles as one line per column."""

from __future__ import annotations

from waterclock.operations.measure_formatting import measured_lines


def test_a_profile_is_a_line_for_each_column() -> None:
    values = {"rows": "3", "revenue": "4.50", "a.nulls": "1", "a.min": None, "b.c.nulls": "0", "b.c.max": "9"}
    measured = {name: {"value": value, "type": "string"} for name, value in values.items()}
    assert measured_lines({"measured": measured | {"max(b.max)": {"value": None, "type": "int"}}}) == [
        "revenue: 4.50",
        "max(b.max): NULL",
        "a: 1 null",
        "b.c: 0 null, to 9",
    ]
    assert measured_lines({}) == []
