from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from waterclock.errors import WaterclockError
from waterclock.timelabel.window import Window

START = datetime(2018, 3, 5, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_window_holds_its_start_and_not_its_end() -> None:
    window = Window(START, START + HOUR)
    assert window.contains(START)
    assert window.contains(START + HOUR - timedelta(microseconds=1))
    assert not window.contains(START + HOUR)
    assert not window.contains(START - timedelta(microseconds=1))


def test_a_window_is_named_by_its_start() -> None:
    assert Window(START, START + HOUR).label == "20180305080000"


def test_windows_sort_by_time() -> None:
    later, earlier = Window(START + HOUR, START + 2 * HOUR), Window(START, START + HOUR)
    assert sorted([later, earlier]) == [earlier, later]


@pytest.mark.parametrize("length", [timedelta(0), -HOUR])
def test_an_empty_window_does_not_exist(length: timedelta) -> None:
    with pytest.raises(WaterclockError, match="is empty") as refusal:
        Window(START, START + length)
    assert refusal.value.code == "E108"
