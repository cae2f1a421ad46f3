from __future__ import annotations

import pytest

from waterclock.dpl.query.aggregates import aggregates_of
from waterclock.dpl.query.group_measures import GroupMeasure, group_measures_in, with_group_values


def test_the_same_measure_is_found_once() -> None:
    said = ["k_anonymity(zip, age) >= 5", "K_ANONYMITY( zip , age ) < 9 AND l_diversity(left(d, 3), zip, age) > 1"]
    people, values = GroupMeasure(("zip", "age")), GroupMeasure(("zip", "age"), "left(d, 3)")
    assert group_measures_in(said) == [people, values]
    assert with_group_values(said[1], {people: 7, values: 2}) == "7L < 9 AND 2L > 1"
    assert aggregates_of(said[1]) == ["K_ANONYMITY( zip , age )", "l_diversity(left(d, 3), zip, age)"]


@pytest.mark.parametrize("text", ["'k_anonymity(a)' = k_anonymity", "my.k_anonymity(a) > 1", "`k_anonymity` > 1"])
def test_other_words_are_no_measure(text: str) -> None:
    assert group_measures_in([text]) == []
    assert with_group_values(text, {}) == text
