from __future__ import annotations

from datetime import UTC, datetime

import pytest

from waterclock.operations.formatting import (
    bytes_words,
    count_words,
    instant_words,
    label_range,
    local_label,
    local_range,
    seconds_words,
)
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import parse_period


def cadence(period: str, zone: str = "UTC") -> Cadence:
    return Cadence(parse_period(period), zone=zone)


@pytest.mark.parametrize(
    ("period", "zone", "label", "expected"),
    [
        ("DAY", "Asia/Tokyo", datetime(2024, 3, 4, 15, tzinfo=UTC), "2024-03-05"),
        ("DAY", "America/New_York", datetime(2013, 1, 1, 5, tzinfo=UTC), "2013-01-01"),
        ("HOUR", "America/New_York", datetime(2013, 1, 1, 5, tzinfo=UTC), "2013-01-01 00:00"),
        ("WEEK", "UTC", datetime(2024, 3, 4, tzinfo=UTC), "2024-03-04"),
        ("MONTH", "UTC", datetime(2024, 3, 1, tzinfo=UTC), "2024-03"),
        ("QUARTER", "UTC", datetime(2024, 4, 1, tzinfo=UTC), "2024-Q2"),
        ("YEAR", "UTC", datetime(2024, 1, 1, tzinfo=UTC), "2024"),
    ],
)
def test_a_label_is_formatted_in_the_zone_of_its_table(period: str, zone: str, label: datetime, expected: str) -> None:
    assert local_label(label, cadence(period, zone)) == expected


def test_a_range_names_both_its_ends_and_one_label_only_itself() -> None:
    low, high = datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 3, tzinfo=UTC)
    assert local_range(low, high, cadence("DAY")) == "2013-01-01 .. 2013-01-03"
    assert local_range(low, low, cadence("DAY")) == "2013-01-01"
    assert label_range(low, high) == "20130101000000..20130103000000"


def test_an_instant_has_utc_beside_its_zone() -> None:
    at = datetime(2013, 1, 5, 5, tzinfo=UTC)
    assert instant_words(at, "America/New_York") == "2013-01-05 00:00 -05:00 (2013-01-05 05:00Z)"
    assert instant_words(at, "UTC") == "2013-01-05 05:00Z"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (12.4, "12 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")],
)
def test_durations_are_formatted_in_their_largest_units(seconds: float, expected: str) -> None:
    assert seconds_words(seconds) == expected


def test_counts_carry_their_noun_and_thin_thousands() -> None:
    assert count_words(1, "row") == "1 row"
    assert count_words(336776, "row") == "336\u2009776 rows"
    assert count_words(2, "batch", "batches") == "2 batches"


@pytest.mark.parametrize(
    ("size", "expected"), [(812, "812 B"), (4096, "4.1 kB"), (123456, "123 kB"), (1_200_000_000, "1.2 GB")]
)
def test_sizes_are_formatted_with_a_short_unit(size: int, expected: str) -> None:
    assert bytes_words(size) == expected
