"""The progress of reading a log range, as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors.postgres.log_changes import Begin, Event, LogChange, Op
from waterclock.connectors.postgres.slot_reading import LogRange, LogScanSummary, ends_of, rows_in

NOW = datetime(2026, 11, 23, tzinfo=UTC)
SHORT = 64 << 20


@given(st.integers(0, 1 << 60), st.integers(0, 1 << 42), st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_a_range_is_read_ever_further_and_at_last_whole(low: int, size: int, newest: int, until: int) -> None:
    span = LogRange(low, low + size, NOW + timedelta(seconds=newest))
    ends = list(ends_of(span, NOW + timedelta(seconds=until), NOW))
    assert ends[-1] == span.high
    assert ends == sorted(set(ends))
    assert all(end >= low + SHORT for end in ends[:-1])
    assert len(ends) <= 20


def test_a_window_that_is_the_newest_is_read_at_once_and_one_of_ten_by_its_share() -> None:
    span = LogRange(0, 100 * SHORT, NOW - timedelta(hours=10))
    assert list(ends_of(span, NOW - timedelta(minutes=1), NOW)) == [span.high]
    assert next(ends_of(span, NOW - timedelta(hours=9), NOW)) == 12.5 * SHORT


def test_a_commit_of_a_clock_that_was_ahead_does_not_end_the_ranges_until_then() -> None:
    minutes = {10: 1, 20: 60 * 24 * 365, 30: 2, 40: 3}  # by position: the second one is a year ahead
    begins = {at: Begin(at, at, NOW + timedelta(minutes=it)) for at, it in minutes.items()}
    events: list[Event] = []
    for begin in begins.values():
        events += [begin, LogChange(Op.INSERT, begin, 0, {"id": "1"})]
    extract = SimpleNamespace(wanted=[SimpleNamespace(taken=SimpleNamespace(source="id"))])
    followed: Any = SimpleNamespace(extract=extract, columns=None, keys=("id",))
    seen, span = LogScanSummary(), LogRange(5, 50, NOW, clock=NOW + timedelta(minutes=9))
    rows = list(rows_in(events, span, followed, NOW + timedelta(minutes=3), seen))
    assert [(row.begin.committed_at, (row.at - NOW) // timedelta(minutes=1)) for row in rows] == [
        (10, 1),
        (20, 1),
        (30, 2),
    ]
    assert (seen.high, seen.newest) == (40, NOW + timedelta(minutes=2))
