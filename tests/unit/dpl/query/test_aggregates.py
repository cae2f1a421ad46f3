from __future__ import annotations

import pytest

from waterclock.dpl.query.aggregates import GROUP_AGGREGATES, NAMES, aggregates_of, expand_aggregates
from waterclock.dpl.syntax.aggregate_calls import OWN_AGGREGATES

WRITTEN = "coalesce(get(approx_top_k({0}, 1), 0).count * approx_count_distinct({0}) / count({0}), 1D)"


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("skew(c) < 5", f"{WRITTEN.format('c')} < 5"),
        ("count(*) > 1 AND SKEW( a.`b c` )<5", f"count(*) > 1 AND {WRITTEN.format('a.`b c`')}<5"),
        ("skew(coalesce(x, ')')) + skew(y)", WRITTEN.format("coalesce(x, ')')") + " + " + WRITTEN.format("y")),
        ("'skew(x)' = skew", "'skew(x)' = skew"),
        ("my.skew(c) = skewness(c)", "my.skew(c) = skewness(c)"),
    ],
)
def test_each_call_is_written_out_and_nothing_else(said: str, asked: str) -> None:
    assert expand_aggregates(said) == asked


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("count(*) > 2", ["count(*)"]),
        ("Sum( a ) > 0 AND avg(b)<5 OR Sum( a ) > max(`c d`)", ["Sum( a )", "avg(b)", "max(`c d`)"]),
        ("count_if(a IS NULL) < 0.5 * count(*)", ["count_if(a IS NULL)", "count(*)"]),
        ("count(DISTINCT id) = count(*)", ["count(DISTINCT id)", "count(*)"]),
        ("abs(sum(coalesce(a, 0))) < 5", ["sum(coalesce(a, 0))"]),
        ("skew(c) < 5", ["skew(c)"]),
        ("sum(a) FILTER (WHERE b > 0) > 1 AND my.sum(c) > sum", []),
    ],
)
def test_the_aggregates_of_a_rule_are_found_as_they_are_written(said: str, found: list[str]) -> None:
    assert aggregates_of(said) == found


def test_the_aggregates_that_are_recognized_are_those_that_are_expanded() -> None:
    assert NAMES | set(GROUP_AGGREGATES) == OWN_AGGREGATES
