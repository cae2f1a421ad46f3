"""A rule is parted at each aggregate and at each call that asks what was before; all between is as it was written."""

from __future__ import annotations

import pytest

from waterclock.dpl.resolve.comparisons import comparison_of
from waterclock.dpl.syntax.expressions import expression_of
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.tokens import statements_of
from waterclock.errors import WaterclockError


def parted(text: str) -> list[str]:
    source = SourceText("a.dpl", text)
    [statement], _ = statements_of(source)
    errors: list[WaterclockError] = []
    found = comparison_of(expression_of(source, statement.tokens, source.span(0, len(text))), text, errors)
    if found is None:
        return [error.what for error in errors]
    assert found.render({value: str(value) for value in found.values}).replace(" ", "") == text.replace(" ", "")
    return list(map(str, found.values))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("count(*) > last_good(count(*))", ["count(*)", "last_good(count(*))"]),
        ("coalesce(max(a + 1), 0) < usual(max(a + 1), -2.5)", ["max(a + 1)", "usual(max(a + 1), -2.5)"]),
        ("sum(if(a > 0, least(a, b), 0)) / 2 IN (1, 2)", ["sum(if(a > 0, least(a, b), 0))"]),
        ("CASE WHEN (count(a) > 3) THEN min(b) > 1 ELSE TRUE END", ["count(a)", "min(b)"]),
        ("max(a) > ')(' AND last_good(max(a)) <> ','", ["max(a)", "last_good(max(a))"]),
        ("count(*) > usual(count_if(a = 'filter'))", ["count(*)", "usual(count_if(a = 'filter'))"]),
        ("count(*) > usual(sum(a) + 1)", ["usual(sum(a) + 1) has no aggregate"]),
        ("count(*) > usual()", ["usual() has no argument"]),
        ("trend(sum(a), 30) BETWEEN 0.8 AND 1.25", ["trend(sum(a), 30)"]),
        ("2 > trend( max(b) , 120 )", ["trend(max(b), 120)"]),
        ("trend(count(*)) < 2", ["trend(count(*)) needs a second argument, 14 to 120 days"]),
        ("trend(count(*), 13) < 2", ["trend(count(*)) needs a second argument, 14 to 120 days, not 13"]),
        ("trend(count(*), -30) < 2", ["trend(count(*)) needs a second argument, 14 to 120 days, not -30"]),
        ("trend(a, 30) < 2", ["trend(a) has no aggregate"]),
    ],
)
def test_a_rule_is_parted(text: str, values: list[str]) -> None:
    assert parted(text) == values
