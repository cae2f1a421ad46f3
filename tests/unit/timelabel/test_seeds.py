"""Every example about time in the seed documents: the data model, batching by timelabels, the meaning of a label."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.cron import compile_cron
from waterclock.timelabel.fitting import consists_of_windows
from waterclock.timelabel.label import (
    LabelParts,
    hive_path,
    instant_of,
    label_of,
    label_of_hive_path,
    label_of_parts,
    parts_of,
)
from waterclock.timelabel.period import parse_period
from waterclock.timelabel.window import Window

PAST_EVERY_HOUR = "10 * * * *"
PAST_MIDNIGHT = "10 0 * * *"
LAST_MICROSECOND = timedelta(microseconds=1)


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]  # year, month, day, hour, minute


def triggered_window(cadence: Cadence, now: datetime) -> Window:
    """Return the window whose batch starts at `now`."""
    end = cadence.last_due(now)
    window = Window(cadence.previous(end), end)
    assert cadence.due_at(window) == now
    return window


def test_ten_past_nine_is_the_label_of_the_hour_from_eight() -> None:
    window = triggered_window(compile_cron(PAST_EVERY_HOUR), at(2018, 3, 5, 9, 10))
    assert window.label == "20180305080000"
    assert window.label != "20180305091000"


def test_the_label_0800_holds_the_hour_from_0800_to_the_last_instant_before_0900() -> None:
    window = compile_cron(PAST_EVERY_HOUR).window("20180305080000")
    assert window.contains(at(2018, 3, 5, 8))
    assert window.contains(at(2018, 3, 5, 9) - LAST_MICROSECOND)
    assert not window.contains(at(2018, 3, 5, 9))


def test_the_batch_starts_after_its_hour_ends() -> None:
    cadence = compile_cron(PAST_EVERY_HOUR)
    window = cadence.window("20180305080000")
    assert window.end == at(2018, 3, 5, 9)
    assert cadence.due_at(window) >= window.end


def test_a_daily_backfill_from_new_year_has_a_label_for_each_day() -> None:
    cadence = compile_cron(PAST_MIDNIGHT)
    labels = [window.label for window in cadence.windows(at(2018, 1, 1), cadence.last_due(at(2018, 1, 4, 0, 10)))]
    assert labels == ["20180101000000", "20180102000000", "20180103000000"]


@pytest.mark.parametrize(
    ("kicked_off", "label", "first", "end"),
    [
        (at(2018, 1, 2, 0, 10), "20180101000000", at(2018, 1, 1), at(2018, 1, 2)),
        (at(2018, 1, 3, 0, 10), "20180102000000", at(2018, 1, 2), at(2018, 1, 3)),
    ],
)
def test_a_day_is_kicked_off_ten_minutes_after_it_ends(
    kicked_off: datetime, label: str, first: datetime, end: datetime
) -> None:
    window = triggered_window(compile_cron(PAST_MIDNIGHT), kicked_off)
    assert window == Window(first, end)
    assert window.label == label
    assert window.contains(end - LAST_MICROSECOND)


def test_nothing_is_due_before_ten_past() -> None:
    before = at(2018, 1, 2, 0, 10) - LAST_MICROSECOND
    cadence = compile_cron(PAST_MIDNIGHT)
    assert list(cadence.windows(at(2018, 1, 1), cadence.last_due(before))) == []


def test_a_label_is_its_partition() -> None:
    partition = LabelParts(y="2018", m="01", d="01", h="00", n="00")
    assert parts_of("20180101000000") == partition
    assert label_of_parts(partition) == "20180101000000"


def test_a_partition_is_its_path() -> None:
    assert hive_path("20180101000000") == "y=2018/m=01/d=01/h=00/n=00"
    assert label_of_hive_path("y=2018/m=01/d=01/h=00/n=00") == "20180101000000"


def test_a_label_has_the_form_of_its_definition() -> None:
    assert label_of(at(2018, 3, 5, 8)) == "20180305080000"  # YYYYMMDDHHmm00
    assert instant_of("20180305080000") == at(2018, 3, 5, 8)


def test_the_six_oclock_label_starts_at_seven_and_is_not_the_time_of_the_work() -> None:
    hourly = Cadence(parse_period("HOUR"))
    window = triggered_window(hourly, at(2019, 3, 20, 7))
    assert window.label == label_of(at(2019, 3, 20, 6))
    assert hourly.last_due(at(2019, 3, 20, 7, 2)) == window.end  # two minutes later, at its end


def test_the_window_has_one_length_for_all_batches_of_a_loadunit() -> None:
    for text in ("5 MINUTES", "15 MINUTES", "30 MINUTES", "HOUR"):
        windows = list(Cadence(parse_period(text)).windows(at(2019, 3, 20), at(2019, 3, 21)))
        assert {window.end - window.start for window in windows} == {windows[0].end - windows[0].start}


@pytest.mark.parametrize("source", ["5 MINUTES", "15 MINUTES", "30 MINUTES", "HOUR"])
def test_phones_postgres_and_salesforce_feed_hourly_analytics_and_publishing(source: str) -> None:
    assert consists_of_windows(Cadence(parse_period("HOUR")), Cadence(parse_period(source)))


def test_one_version_of_a_table_gives_the_versions_of_all_others_without_bookkeeping() -> None:
    tick = Cadence(parse_period("HOUR")).window("20190320060000").end
    upstream = {
        text: Cadence(parse_period(text)).previous(tick) for text in ("5 MINUTES", "15 MINUTES", "30 MINUTES", "HOUR")
    }
    assert [label_of(start) for start in upstream.values()] == [
        "20190320065500",
        "20190320064500",
        "20190320063000",
        "20190320060000",
    ]


def test_labels_are_one_to_one_with_partitions() -> None:
    windows = list(Cadence(parse_period("5 MINUTES")).windows(at(2019, 3, 20), at(2019, 3, 21)))
    assert len({hive_path(window.label) for window in windows}) == len(windows) == 288
