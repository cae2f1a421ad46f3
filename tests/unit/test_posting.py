from __future__ import annotations

from datetime import timedelta

from waterclock.posting import wait_after


def test_what_does_not_answer_is_left_alone_ever_longer_up_to_ten_minutes() -> None:
    waits = [wait_after(attempts) for attempts in range(7)]
    assert waits[0] == timedelta(seconds=30)
    assert waits == sorted(waits)
    assert wait_after(5) == wait_after(10_000) == timedelta(minutes=10)
