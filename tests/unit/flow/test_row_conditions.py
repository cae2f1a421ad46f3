"""Conditions on rows of forms: which SQL is accepted, and what they are for a row, with SQL's three values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import pytest

from waterclock.dpl.resolve.row_conditions import UnsupportedConditionError, parse_row_condition
from waterclock.dpl.syntax.expressions import expression_of
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.tokens import dialect
from waterclock.flow.forms import FormField
from waterclock.flow.row_conditions import RowCondition, bind_condition, evaluate, find_unsuitable

FIELDS = {
    name.lower(): FormField(name, kind)
    for name, kind in {
        "land": "STRING",
        "Pack": "INT",
        "price": "DECIMAL(9,2)",
        "day": "DATE",
        "active": "BOOLEAN",
        "weight": "DOUBLE",
        "seen": "TIMESTAMP",
    }.items()
}


def parse(text: str, variables: Mapping[str, object] | None = None) -> RowCondition:
    source = SourceText("a.dpl", text)
    expression = expression_of(source, dialect().tokenize(text), Span(source, 0, len(text)))
    return parse_row_condition(expression, variables or {})


def value(
    text: str, row: Mapping[str, str | None], attributes: Mapping[str, object] | None = None, **variables: object
) -> bool | str | None:
    condition = parse(text, variables)
    assert list(find_unsuitable(condition, FIELDS)) == []
    bound = bind_condition(condition, FIELDS, attributes or {})
    return "unusable" if bound is None else evaluate(bound, row)


ROW = {"land": "DE", "Pack": "9", "price": "12.50", "day": "2026-11-30", "active": "true"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("land = 'DE'", True),
        ("land == 'DE'", True),
        ("land = 'de'", False),
        ("'DE' = land", True),
        ("'A' < land AND 'Z' > land", True),
        ("'DE' >= land AND NOT 'DE' > land", True),
        ("LAND <> 'FR'", True),
        ("`land` != 'DE'", False),
        ("land IN ('FR', 'DE')", True),
        ("land NOT IN ('FR', 'DE')", False),
        ("pack > 10", False),  # as numbers, not as texts
        ("pack >= 9 AND pack < 9.5", True),
        ("pack = -9", False),
        ("price = 12.5", True),
        ("price IN (1, 12.500)", True),
        ("price > 9", True),
        ("day >= '2026-11-30' AND day < DATE '2026-12-01'", True),
        ("active", True),
        ("NOT active", False),
        ("active = FALSE", False),
        ("weight IS NULL AND seen IS NULL", True),
        ("land IS NOT NULL", True),
        ("land = 'FR' OR (pack = 9 AND active)", True),
    ],
)
def test_a_condition_of_a_row(text: str, expected: bool) -> None:
    assert value(text, ROW) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("land = 'DE'", None),
        ("NOT land = 'DE'", None),
        ("land <> 'DE'", None),
        ("land NOT IN ('DE')", None),
        ("active", None),
        ("land = 'DE' OR pack = 9", True),
        ("land = 'DE' AND pack = 9", None),
        ("land = 'DE' AND pack = 8", False),
        ("NOT (land = 'DE' AND pack = 8)", True),
        ("land IS NULL", True),
    ],
)
def test_a_comparison_with_null_is_unknown(text: str, expected: bool | None) -> None:
    assert value(text, {"land": None, "Pack": "9"}) is expected


def test_an_attribute_of_another_type_is_unknown_and_a_missing_one_makes_the_grant_unusable() -> None:
    assert value("land = USER('land')", ROW, {"land": "DE"}) is True
    assert value("land = user('land')", ROW, {"land": "FR"}) is False
    assert value("land <> USER('land')", ROW, {"land": 5}) is None
    assert value("NOT pack = USER('pack')", ROW, {"pack": "8"}) is None
    assert value("pack = USER('pack')", ROW, {"pack": 9}) is True
    assert value("active = USER('on')", ROW, {"on": True}) is True
    assert value("pack = USER('on')", ROW, {"on": True}) is None
    assert value("day = USER('day')", ROW, {"day": date(2026, 11, 30)}) is True
    assert value("land = USER('land')", ROW, {"land": "D\0E"}) is None
    assert value("land = USER('city') OR active", ROW, {"land": "DE"}) == "unusable"


def test_variables_of_the_project_are_literals() -> None:
    assert value("pack < :most", ROW, most=10) is True
    assert value("land = :home AND day = :day", ROW, home="DE", day=date(2026, 11, 30)) is True


def test_a_text_that_does_not_fit_the_present_type_is_unknown() -> None:
    old = {"Pack": "many", "price": "1e3", "day": "30.11.2026", "active": "yes"}
    for text in ("pack = 9", "pack <> 9", "price > 1", "day = '2026-11-30'", "active", "NOT active"):
        assert value(text, old) is None
    assert value("pack IS NULL", old) is False


@pytest.mark.parametrize(
    "text",
    [
        "land LIKE 'D%'",
        "lower(land) = 'de'",
        "land = sku",
        "pack BETWEEN 1 AND land",
        "pack BETWEEN SYMMETRIC 1 AND 2",
        "land <=> 'DE'",
        "land = NULL",
        "land IN ('DE', NULL)",
        "land IN (SELECT 1)",
        "pack + 1 = 2",
        "pack = 1e3",
        "pack = 1L",
        "price = 1BD",
        "t.land = 'DE'",
        "land = r'DE'",
        "land = 'it''s'",
        r"land = 'D\u0045'",
        "1 = 1",
        "TRUE",
        "day = TRY_CAST('2026-11-30' AS DATE)",
        "day = DATE '2026-11-31'",
        "seen = TIMESTAMP '2026-11-30'",
        "land = USER()",
        "land = USER(land)",
        "land = current_user()",
        "active IS TRUE",
        "land = 'DE' COLLATE UTF8_LCASE",
        "(land = 'DE') = TRUE",
        "pack = - -1",
        "EXISTS (SELECT 1)",
        "CASE WHEN active THEN TRUE END",
        "land = 'DE' AND uuid() = 'x'",
    ],
)
def test_other_sql_is_not_accepted(text: str) -> None:
    with pytest.raises(UnsupportedConditionError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("city = 'B'", "city is not a column"),
        ("land = 5", "land is STRING, and 5 is not"),
        ("pack = '5'", "Pack is INT, and 5 is not"),
        ("pack = 123456789012345678901234567890123456789", "Pack is INT"),
        ("day = '2026-11-31'", "day is DATE"),
        ("active = 'true'", "active is BOOLEAN"),
        ("land", "land is STRING, and True is not"),
        ("weight > 1", "values of weight, DOUBLE, are not compared"),
        ("NOT (active OR seen = '2026-11-30')", "values of seen, TIMESTAMP, are not compared"),
    ],
)
def test_columns_and_literals_of_other_types_are_reported(text: str, message: str) -> None:
    [(why, fix)] = find_unsuitable(parse(text), FIELDS)
    assert message in why
    assert fix
