from __future__ import annotations

import pytest

from waterclock.dpl.query.aggregates import in_sparks_words

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
    assert in_sparks_words(said) == asked
