from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from waterclock.dpl.resolve.literals import literal, with_literals
from waterclock.dpl.syntax.clause_parsing import parse_clause
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.statements import Expression


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "TRUE"),
        (15, "15"),
        (-3, "(-3)"),
        (1.5, "1.5D"),
        (-0.5, "double('-0.5')"),
        (float("inf"), "double('inf')"),
        ("it's \\ here\nand", r"'it\'s \\ here\nand'"),
        (date(2024, 1, 2), "DATE '2024-01-02'"),
        (datetime(2024, 1, 2, 3, tzinfo=UTC).replace(tzinfo=None), "TIMESTAMP_NTZ '2024-01-02 03:00:00'"),
        (datetime(2024, 1, 2, 3, tzinfo=UTC), "TIMESTAMP '2024-01-02 03:00:00+00:00'"),
    ],
)
def test_a_value_is_the_literal_of_its_type(value: Any, text: str) -> None:
    assert literal(value) == text


def expression(text: str) -> Expression:
    (rule,) = parse_clause("EXPECT", text, SourceText("a.py", text), variables={})
    found = rule.expression
    assert isinstance(found, Expression)
    return found


def test_an_expression_is_one_line_without_comments() -> None:
    assert expression("a > 0 -- why; not\n  AND  b < 7D /* or\nnot */ OR c = 'x  y'").text == (
        "a > 0 AND b < 7D OR c = 'x  y'"
    )


def test_only_variables_become_literals() -> None:
    found = expression("a > :least AND b = ':least' AND c :: int < :most -- :least")
    assert with_literals(found, {"least": 1, "most": "x"}) == "a > 1 AND b = ':least' AND c :: int < 'x'"
    assert with_literals(found, {"most": 2}) == "a > :least AND b = ':least' AND c :: int < 2"
