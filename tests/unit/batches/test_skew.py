"""The skew of a batch: when it matters, and its message."""

from __future__ import annotations

import json

import pytest

from waterclock.batches.records import WARNINGS, describe_warnings_and_skew
from waterclock.batches.skew import LARGE, LONG, MOST_RATIO, SKEW, UNKNOWN, TaskSkew, skew_warnings, skew_words

BY_K = "OVER (PARTITION BY k) (Exchange by k)"
MB = 1 << 20


@pytest.mark.parametrize(
    ("tasks", "median", "largest", "seconds", "is_felt"),
    [
        (8, 10 * MB, LARGE + 1, 1.0, True),
        (8, 10 * MB, LARGE, 1.0, False),  # even, but neither large nor long
        (8, MB, 6 * MB, LONG + 0.1, True),
        (8, MB, 6 * MB, LONG, False),
        (8, 100 * MB, int(100 * MB * MOST_RATIO), LONG + 1, False),  # not more than five times
        (8, 100 * MB, int(100 * MB * MOST_RATIO) + 1, LONG + 1, True),
        (1, 0, LARGE + 1, 0.0, True),
        (1, 0, 1000, LONG + 1, False),  # few rows are read by one task anyway
        (8, 0, 1000, LONG + 1, True),  # most tasks read nothing
    ],
)
def test_only_a_skew_that_is_felt_is_a_warning(
    tasks: int, median: int, largest: int, seconds: float, *, is_felt: bool
) -> None:
    skew = TaskSkew(BY_K, tasks, median, largest, seconds)
    stored = json.loads(json.dumps({SKEW: skew.as_json()}))
    assert TaskSkew(**stored[SKEW]) == skew
    assert skew.is_felt == is_felt
    assert skew_warnings(stored) == ((f"skew: {skew}",) if is_felt else ())
    assert skew_words(stored) == str(skew)


def test_a_skew_is_worded_with_its_sizes_and_the_exchange() -> None:
    assert str(TaskSkew(BY_K, 8, 138_240, 1_574_400, 12.34)) == (
        f"of 8 tasks the largest read 1.5 MB, 11.4 times the median, in a stage of 12.3 s, for {BY_K}"
    )
    small = TaskSkew(BY_K, 8, 0, 999, 0.5)
    assert str(small) == f"of 8 tasks the largest read 999 bytes, in a stage of 0.5 s, for {BY_K}"
    assert str(TaskSkew(BY_K, 1, 0, 1 << 30, 0.0)) == f"one task read 1.0 GB, and the others nothing, for {BY_K}"


def test_a_batch_without_a_record_has_no_skew_and_an_unknown_one_is_named() -> None:
    assert (skew_words({}), skew_warnings({})) == ("", ())
    unknown = {SKEW: {UNKNOWN: "Spark has forgotten the write of the rows"}}
    assert skew_words(unknown) == "unknown: Spark has forgotten the write of the rows"
    assert skew_warnings(unknown) == ()


def test_warnings_and_skew_are_described_with_their_kinds() -> None:
    skew = TaskSkew(BY_K, 8, 138_240, 1_574_400, 12.34)
    stored = {WARNINGS: ["late: 3 rows"], SKEW: skew.as_json()}
    assert describe_warnings_and_skew(stored) == [("Warning", "late: 3 rows"), ("Skew", str(skew))]
    assert describe_warnings_and_skew({}) == []
