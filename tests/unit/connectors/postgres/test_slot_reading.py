"""How far a range of a log is read, as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors.postgres.slot_reading import Range, ends_of

NOW = datetime(2026, 11, 23, tzinfo=UTC)
SHORT = 64 << 20


@given(st.integers(0, 1 << 60), st.integers(0, 1 << 42), st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_a_range_is_read_ever_further_and_at_last_whole(low: int, size: int, newest: int, until: int) -> None:
    span = Range(low, low + size, NOW + timedelta(seconds=newest))
    ends = list(ends_of(span, NOW + timedelta(seconds=until), NOW))
    assert ends[-1] == span.high
    assert ends == sorted(set(ends))
    assert all(end >= low + SHORT for end in ends[:-1])
    assert len(ends) <= 20


def test_a_window_that_is_the_newest_is_read_at_once_and_one_of_ten_by_its_share() -> None:
    span = Range(0, 100 * SHORT, NOW - timedelta(hours=10))
    assert list(ends_of(span, NOW - timedelta(minutes=1), NOW)) == [span.high]
    assert next(ends_of(span, NOW - timedelta(hours=9), NOW)) == 12.5 * SHORT
