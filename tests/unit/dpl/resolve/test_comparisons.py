"""A rule is split at each aggregate and each call for earlier values; the text in between stays unchanged."""

from __future__ import annotations

import pytest

from waterclock.dpl.resolve.comparisons import comparison_of, find_uncountable_word
from waterclock.dpl.syntax.expressions import expression_of
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.tokens import statements_of
from waterclock.errors import WaterclockError
from waterclock.flow.measures import MeasureComparison


def split(text: str) -> tuple[MeasureComparison | None, list[WaterclockError]]:
    source = SourceText("a.dpl", text)
    [statement], _ = statements_of(source)
    errors: list[WaterclockError] = []
    return comparison_of(expression_of(source, statement.tokens, source.span(0, len(text))), text, errors), errors


def parted(text: str) -> list[str]:
    found, errors = split(text)
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
        (
            "sum(size(filter(xs, x -> x > 1))) > last_good(sum(size(filter(xs, x -> x > 1))))",
            ["sum(size(filter(xs, x -> x > 1)))", "last_good(sum(size(filter(xs, x -> x > 1))))"],
        ),
        ("max(filter) < last_good(sum(within + over))", ["max(filter)", "last_good(sum(within + over))"]),
        ("count(*) > usual(sum(a) + 1)", ["sum(a) + 1 is not a single aggregate"]),
        ("count(*) > usual()", ["usual() has no argument"]),
        ("trend(sum(a), 30) BETWEEN 0.8 AND 1.25", ["trend(sum(a), 30)"]),
        ("2 > trend( max(b) , 120 )", ["trend(max(b), 120)"]),
        ("trend(count(*)) < 2", ["trend(count(*)) needs a second argument, 14 to 120 days"]),
        ("trend(count(*), 13) < 2", ["trend(count(*)) needs a second argument, 14 to 120 days, not 13"]),
        ("trend(count(*), -30) < 2", ["trend(count(*)) needs a second argument, 14 to 120 days, not -30"]),
        ("trend(a, 30) < 2", ["a is not an aggregate"]),
    ],
)
def test_a_rule_is_parted(text: str, values: list[str]) -> None:
    assert parted(text) == values


@pytest.mark.parametrize(
    ("text", "what", "fix", "fixed"),
    [
        ("usual() > 1", "usual() has no argument", "write usual(count(*))", "usual(count(*)) > 1"),
        ("trend() > 1", "trend() has no argument", "write trend(count(*), 30)", "trend(count(*), 30) > 1"),
        ("usual(a) > 1", "a is not an aggregate", "write one, as in usual(sum(a))", "usual(sum(a)) > 1"),
        (
            "usual(sum(a) / 2) > 1",
            "sum(a) / 2 is not a single aggregate",
            "calculate outside of it: write usual(sum(a)) in the expression",
            "usual(sum(a)) / 2 > 1",
        ),
        (
            "last_good(count(*), 2) > 1",
            "last_good() has only one argument",
            "write last_good(count(*))",
            "last_good(count(*)) > 1",
        ),
        (
            "usual(sum(a), b) > 1",
            "the second argument of usual() must be a number, not b",
            "write a number, as in usual(sum(a), -4.5), or leave it out",
            "usual(sum(a), -4.5) > 1",
        ),
        (
            "trend(sum(a), 7) > 1",
            "trend(sum(a)) needs a second argument, 14 to 120 days, not 7",
            "write trend(sum(a), 30)",
            "trend(sum(a), 30) > 1",
        ),
        (
            "usual(count(DISTINCT a)) > 1",
            "DISTINCT is not supported in usual()",
            "write approx_count_distinct(a)",
            "usual(approx_count_distinct(a)) > 1",
        ),
        (
            "usual(sum(DISTINCT a)) > 1",
            "DISTINCT is not supported in usual()",
            "leave DISTINCT out",
            "usual(sum(a)) > 1",
        ),
        (
            "usual(sum(a) FILTER (WHERE a > 1)) > 1",
            "FILTER is not supported in usual()",
            "write count_if(condition), or an aggregate of CASE WHEN condition THEN value END",
            "usual(sum(CASE WHEN a > 1 THEN a END)) > 1",
        ),
        (
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY a) > usual(count(*))",
            "WITHIN is not supported in a rule that compares batches",
            "write approx_percentile(column, 0.5)",
            "approx_percentile(a, 0.5) > usual(count(*))",
        ),
        (
            "last_good(k_anonymity(a)) > 1",
            "k_anonymity() cannot be compared with earlier batches",
            "compare it with a number: EXPECT k_anonymity(zip, age) >= 5",
            "count(*) > 1",
        ),
    ],
)
def test_each_problem_has_its_own_fix_which_works(text: str, what: str, fix: str, fixed: str) -> None:
    _, [error] = split(text)
    assert (error.code, error.what, error.fix) == ("E294", what, fix)
    assert split(fixed)[0] is not None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("sum(size(filter(xs, x -> x > 1)))", None),
        ("sum(f(a) * filter + over)", None),
        ("count(*) FILTER (WHERE a > 3)", "FILTER"),
        ("sum(a)filter(where a > 3)", "FILTER"),
        ("first(a) IGNORE NULLS OVER w", "OVER"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY a)", "WITHIN"),
        ("count(DISTINCT a)", "DISTINCT"),
        ("count_if(a = 'sum(a) FILTER')", None),
    ],
)
def test_only_a_word_that_changes_a_call_prevents_counting_while_rows_are_written(text: str, word: str | None) -> None:
    assert find_uncountable_word(text) == word
