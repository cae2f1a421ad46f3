from __future__ import annotations

import pytest

from waterclock.dpl.query.mergeable_aggregates import AggregateCall, split_at_aggregates


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("count(*)", [AggregateCall("count", ("*",))]),
        ("SUM( amount ) / count(*)", [AggregateCall("sum", ("amount",)), AggregateCall("count", ("*",))]),
        ("round(avg(`a, b`), 2)", [AggregateCall("avg", ("`a, b`",))]),
        (
            "approx_percentile(x, array(0.1, 0.5), 100)",
            [AggregateCall("approx_percentile", ("x", "array(0.1, 0.5)", "100"))],
        ),
        ("count_if(a > 0 AND b IN (1, 2))", [AggregateCall("count_if", ("a > 0 AND b IN (1, 2)",))]),
        ("coalesce(max(if(a, b, c)), 0) - 1", [AggregateCall("max", ("if(a, b, c)",))]),
    ],
)
def test_an_expression_is_parted_at_its_aggregates(text: str, calls: list[AggregateCall]) -> None:
    found = split_at_aggregates(text)
    assert found is not None
    assert [*found.calls] == calls
    there = found.render(lambda at: f"<{at}>")
    assert there.count("<") == len(calls)
    assert "sum" not in there.lower()


@pytest.mark.parametrize(
    "text",
    [
        "count(DISTINCT a)", "sum(a) FILTER (WHERE b)", "stddev(a) + sum(b)", "skew(a)", "max(a) - b", "my_agg(a)",
        "sum(a) OVER (PARTITION BY b)", "percentile(a, 0.5)", "1 + 1",
    ],
)  # fmt: skip
def test_aggregates_that_cannot_be_merged_are_not_split(text: str) -> None:
    assert split_at_aggregates(text) is None
