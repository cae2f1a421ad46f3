from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from waterclock.errors import WaterclockError
from waterclock.timelabel.instant import utc_of
from waterclock.timelabel.label import (
    LabelParts,
    hive_path,
    instant_of,
    label_of,
    label_of_hive_path,
    label_of_parts,
    parts_of,
)

LABEL = "20180305080000"
EIGHT = datetime(2018, 3, 5, 8, tzinfo=UTC)


def test_a_label_is_the_utc_start_of_its_window() -> None:
    assert label_of(EIGHT) == LABEL
    assert instant_of(LABEL) == EIGHT


def test_every_instant_has_the_one_utc_object_as_zone() -> None:
    assert instant_of(LABEL).tzinfo is UTC
    assert utc_of(EIGHT.astimezone(timezone(timedelta(hours=9)))).tzinfo is UTC
    assert utc_of(EIGHT) is EIGHT


def test_an_instant_in_another_zone_is_labelled_in_utc() -> None:
    assert label_of(datetime(2018, 3, 5, 17, tzinfo=timezone(timedelta(hours=9)))) == LABEL


def test_years_before_1000_keep_four_digits() -> None:
    assert label_of(datetime(44, 3, 15, tzinfo=UTC)) == "00440315000000"


def test_an_instant_without_a_zone_has_no_label() -> None:
    with pytest.raises(WaterclockError) as refusal:
        label_of(EIGHT.replace(tzinfo=None))
    assert refusal.value.code == "E106"
    assert str(refusal.value).startswith("E106 2018-03-05T08:00:00 has no zone\nwhy  ")


def test_an_instant_that_utc_cannot_hold_has_no_label() -> None:
    with pytest.raises(WaterclockError, match="is outside the years 1 to 9999") as refusal:
        label_of(datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-9))))
    assert refusal.value.code == "E106"


@pytest.mark.parametrize("part", [{"second": 1}, {"microsecond": 1}])
def test_an_instant_within_a_minute_has_no_label(part: dict[str, int]) -> None:
    with pytest.raises(WaterclockError, match="is not a whole minute") as refusal:
        label_of(EIGHT + timedelta(seconds=part.get("second", 0), microseconds=part.get("microsecond", 0)))
    assert refusal.value.code == "E101"
    assert refusal.value.fix == f"the minute that contains it is {LABEL}"


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("2018-03-05", "write 20180305000000"),
        ("2018-03-05 08:00", "write 20180305080000"),
        ("2018-03-05T08:00:00Z", "write 20180305080000"),
        ("20180305080059", "write 20180305080000"),
        ("2018030508", "write 20180305080000"),
        ("20180230080000", "write it as in 20180305080000 for 2018-03-05 08:00 UTC"),
        ("20181305080000", "write it as in 20180305080000 for 2018-03-05 08:00 UTC"),
        ("00000101000000", "write it as in 20180305080000 for 2018-03-05 08:00 UTC"),
        ("yesterday", "write it as in 20180305080000 for 2018-03-05 08:00 UTC"),
        ("", "write it as in 20180305080000 for 2018-03-05 08:00 UTC"),
        ("٢٠١٨٠٣٠٥٠٨٠٠٠٠", "write it as in 20180305080000 for 2018-03-05 08:00 UTC"),
        ("20180305080000\n", "write it as in 20180305080000 for 2018-03-05 08:00 UTC"),
    ],
)
def test_a_malformed_label_is_refused_with_the_expected_form(text: str, fix: str) -> None:
    with pytest.raises(WaterclockError) as refusal:
        instant_of(text)
    error = refusal.value
    assert (error.code, error.what) == ("E101", f"malformed label {text!r}")
    assert error.why is not None
    assert "YYYYMMDDHHmm00" in error.why
    assert error.fix == fix


def test_a_label_is_its_parts_both_ways() -> None:
    assert parts_of(LABEL) == LabelParts(y="2018", m="03", d="05", h="08", n="00")
    assert label_of_parts(("2018", "03", "05", "08", "00")) == LABEL


@pytest.mark.parametrize(
    "parts",
    [
        ("2018", "3", "05", "08", "00"),
        ("2018", "03", "05", "08"),
        ("2018", "02", "30", "08", "00"),
        ("2018", "03", "05", "08", "0x"),
        ("201", "803", "05", "08", "00"),
        (),
    ],
)
def test_parts_that_are_no_label_are_refused(parts: tuple[str, ...]) -> None:
    with pytest.raises(WaterclockError) as refusal:
        label_of_parts(parts)
    assert refusal.value.code == "E101"


def test_a_label_is_its_folder_both_ways() -> None:
    folder = "y=2018/m=03/d=05/h=08/n=00"
    assert hive_path(LABEL) == folder
    assert label_of_hive_path(folder) == LABEL


@pytest.mark.parametrize(
    "path",
    [
        "tables/shop/orders/_stage/y=2018/m=03/d=05/h=08/n=00/c=17/part-0.parquet",
        "/y=2018/m=03/d=05/h=08/n=00/",
        "y=2001/m=01/d=01/h=00/n=00/copy/y=2018/m=03/d=05/h=08/n=00",
    ],
)
def test_the_label_folders_may_be_anywhere_in_a_path(path: str) -> None:
    assert label_of_hive_path(path) == LABEL


@pytest.mark.parametrize(
    "path",
    [
        "",
        "y=2018/m=3/d=05/h=08/n=00",
        "y=2018/m=03/d=05/h=08",
        "my=2018/m=03/d=05/h=08/n=00",
        "y=2018/m=02/d=30/h=00/n=00",
    ],
)
def test_a_path_without_a_label_is_refused(path: str) -> None:
    with pytest.raises(WaterclockError) as refusal:
        label_of_hive_path(path)
    assert refusal.value.code == "E101"


def test_a_malformed_label_has_no_parts_and_no_folder() -> None:
    for name in (parts_of, hive_path):
        with pytest.raises(WaterclockError, match="malformed label '2018'"):
            name("2018")
