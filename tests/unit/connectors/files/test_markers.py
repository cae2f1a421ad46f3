"""The marker file by which a sender declares a window complete."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from waterclock.connectors.files.markers import format_marker_name, has_marker
from waterclock.errors import WaterclockError
from waterclock.timelabel.window import Window

DAY = Window(datetime(2024, 2, 29, 23, tzinfo=UTC), datetime(2024, 3, 1, 23, tzinfo=UTC))


@pytest.mark.parametrize(
    ("name", "zone", "said"),
    [
        ("%Y/%m/%d/_SUCCESS", "UTC", "2024/02/29/_SUCCESS"),
        ("%Y/%m/%d/_SUCCESS", "Europe/Berlin", "2024/03/01/_SUCCESS"),
        ("%Y%j%H%M", "Europe/Berlin", "20240610000"),
        ("100%%_%Y", "UTC", "100%_2024"),
        ("%%Y", "UTC", "%Y"),
        ("_SUCCESS", "UTC", "_SUCCESS"),
    ],
)
def test_a_marker_is_named_by_the_start_of_its_window_in_the_zone_of_its_table(name: str, zone: str, said: str) -> None:
    assert format_marker_name(name, DAY.start, zone) == said


def test_a_marker_of_a_window_counts_whenever_it_was_written(tmp_path: Path) -> None:
    assert not has_marker(tmp_path, "%Y/%m/%d/_SUCCESS", DAY, "UTC")
    marker = tmp_path / "2024" / "02" / "29" / "_SUCCESS"
    marker.parent.mkdir(parents=True)
    marker.touch()
    os.utime(marker, (0, 0))
    assert has_marker(tmp_path, "%Y/%m/%d/_SUCCESS", DAY, "UTC")


def test_a_rewritten_marker_counts_for_windows_that_ended_before_its_change(tmp_path: Path) -> None:
    marker = tmp_path / "100%"
    marker.touch()
    for seconds, counts in ((-1, False), (0, True), (1, True)):
        at = (DAY.end + timedelta(seconds=seconds)).timestamp()
        os.utime(marker, (at, at))
        assert has_marker(tmp_path, "100%%", DAY, "UTC") is counts


def test_a_missing_marker_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(WaterclockError, match="does not exist") as raised:
        has_marker(tmp_path / "gone", "_SUCCESS", DAY, "UTC")
    assert raised.value.code == "E804"
