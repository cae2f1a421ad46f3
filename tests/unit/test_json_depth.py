"""The maximum nesting depth of JSON."""

from __future__ import annotations

import pytest

from waterclock.json_depth import MOST_LEVELS, require_depth, require_shallow


@pytest.mark.parametrize(
    "text",
    [
        "[" * MOST_LEVELS + "]" * MOST_LEVELS,
        "[" + "{}," * 5000 + "{}]",
        '["' + "[" * 5000 + '", "\\"' + "{" * 5000 + '"]',
        '"' + '\\"' * 100_000 + "[" * 2000,
    ],
)
def test_json_that_spark_can_read_is_not_too_deep(text: str) -> None:
    require_depth(text)


@pytest.mark.parametrize(
    "text", ["[" * (MOST_LEVELS + 1) + "]" * (MOST_LEVELS + 1), '{"]": ' * (MOST_LEVELS + 1) + "1" + "}" * 1001]
)
def test_one_level_more_is_too_deep(text: str) -> None:
    with pytest.raises(RecursionError):
        require_depth(text)


def test_parsed_values_may_have_at_most_the_given_number_of_levels() -> None:
    value: object = "leaf"
    for _ in range(3):
        value = {"a": [1], "b": [value]}
    require_shallow(value, most=6)
    with pytest.raises(RecursionError):
        require_shallow(value, most=5)
    require_shallow("leaf", most=0)
