"""The lag of a log, as a tick records it: bounded, and nothing if the record is damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tiny import day
from waterclock.storage.commit.log_lag import LogLag, PartitionLag, read_log_lag, record_log_lag, summarize_lag


def test_the_twenty_partitions_with_the_largest_lag_are_recorded_with_the_sum_of_all(tmp_path: Path) -> None:
    parts = {str(each): (10, 10 + each % 500) for each in range(1000)}
    lag = summarize_lag(parts)
    assert lag is not None
    assert (lag.offsets, lag.partitions, lag.behind) == (2 * sum(range(500)), 1000, 998)
    assert [each.partition for each in lag.worst[:4]] == ["499", "999", "498", "998"]
    assert (len(lag.worst), lag.worst[0].committed, lag.worst[0].end, lag.worst[0].offsets) == (20, 10, 509, 499)
    worst = (replace(lag.worst[0], newest=day(3)), *lag.worst[1:])
    record_log_lag(str(tmp_path / "spd_clicks"), replace(lag, worst=worst))
    assert read_log_lag(str(tmp_path / "spd_clicks")) == replace(lag, worst=worst)
    [file] = (tmp_path / "spd_clicks").iterdir()
    assert file.stat().st_size < 1000


def test_a_log_whose_positions_are_no_numbers_has_no_lag() -> None:
    assert summarize_lag({"0": ("0/16B3748", "0/16B3790")}) is None
    assert summarize_lag({}) == LogLag(0, 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "3", '{"offsets": 1, "partitions": 1, "behind": 1, "worst": {"0": [1]}}',
        '{"offsets": 1, "partitions": 1, "behind": 1, "worst": {"0": [1, 2, "2020-01-01T00:00:00"]}}',
        '{"offsets": 1, "partitions": 1, "behind": 1, "worst": []}',
    ],
)  # fmt: skip
def test_a_damaged_record_is_as_none(tmp_path: Path, text: str) -> None:
    assert read_log_lag(str(tmp_path)) is None
    record_log_lag(str(tmp_path), LogLag(1, 1, 1, (PartitionLag("0", 1, 2),)))
    [file] = tmp_path.iterdir()
    file.write_text(text)
    assert read_log_lag(str(tmp_path)) is None
