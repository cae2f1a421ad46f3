from __future__ import annotations

import pytest

from waterclock.errors import WaterclockError
from waterclock.timelabel.period import MINUTE_COUNTS, Period, TimeUnit, parse_period

LEGAL = [Period(TimeUnit.MINUTE, count) for count in MINUTE_COUNTS] + [
    Period(unit) for unit in TimeUnit if unit != "MINUTE"
]


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("15 MINUTES", Period(TimeUnit.MINUTE, 15)),
        ("15 minute", Period(TimeUnit.MINUTE, 15)),
        ("MINUTE", Period(TimeUnit.MINUTE, 1)),
        ("1 HOUR", Period(TimeUnit.MINUTE, 60)),
        ("hour", Period(TimeUnit.MINUTE, 60)),
        ("60 MINUTES", Period(TimeUnit.MINUTE, 60)),
        ("6 HOURS", Period(TimeUnit.MINUTE, 360)),
        ("24 HOURS", Period(TimeUnit.MINUTE, 1440)),
        ("day", Period(TimeUnit.DAY)),
        (" 1  DAY ", Period(TimeUnit.DAY)),
        ("WEEK", Period(TimeUnit.WEEK)),
        ("MONTH", Period(TimeUnit.MONTH)),
        ("1 QUARTER", Period(TimeUnit.QUARTER)),
        ("Year", Period(TimeUnit.YEAR)),
    ],
)
def test_a_period_is_read_from_its_words(text: str, period: Period) -> None:
    assert parse_period(text) == period


@pytest.mark.parametrize("period", LEGAL, ids=str)
def test_the_canonical_form_is_read_back(period: Period) -> None:
    assert parse_period(str(period)) == period


@pytest.mark.parametrize(
    ("count", "text"), [(1, "MINUTE"), (15, "15 MINUTES"), (60, "HOUR"), (90, "90 MINUTES"), (120, "2 HOURS")]
)
def test_there_is_one_canonical_form(count: int, text: str) -> None:
    assert str(Period(TimeUnit.MINUTE, count)) == text


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("7 MINUTES", "6 MINUTES or 8 MINUTES"),
        ("50 MINUTES", "48 MINUTES or HOUR"),
        ("0 MINUTES", "MINUTE"),
        ("30 SECONDS", "MINUTE"),
        ("90 SECONDS", "MINUTE or 2 MINUTES"),
        ("5 HOURS", "4 HOURS or 6 HOURS"),
        ("7 hours", "6 HOURS or 8 HOURS"),
        ("36 HOURS", "DAY or WEEK"),
        ("2000 MINUTES", "DAY or WEEK"),
        ("2 DAYS", "DAY or WEEK"),
        ("3 DAYS", "DAY or WEEK"),
        ("7 DAYS", "WEEK"),
        ("30 DAYS", "MONTH"),
        ("0 DAYS", "DAY"),
        ("2 WEEKS", "WEEK or MONTH"),
        ("2 MONTHS", "MONTH or QUARTER"),
        ("3 MONTHS", "QUARTER"),
        ("365 DAYS", "YEAR"),
        ("10 YEARS", "YEAR"),
    ],
)
def test_an_illegal_period_is_refused_with_the_nearest_legal_ones(text: str, nearest: str) -> None:
    with pytest.raises(WaterclockError) as refusal:
        parse_period(text)
    assert (refusal.value.code, refusal.value.what) == ("E102", f"{text!r} is not a window length")
    assert refusal.value.fix == f"use the nearest: {nearest}"


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("15m", "write 15 MINUTES"),
        ("15 min", "write 15 MINUTES"),
        ("1h", "write 1 HOUR"),
        ("2hrs", "write 2 HOURS"),
        ("daily", "write DAY"),
        ("dya", "write DAY"),
        ("15 munites", "write 15 MINUTES"),
        ("1.5 HOURS", "write one such as 15 MINUTES, HOUR or DAY"),
        ("-1 DAY", "write one such as 15 MINUTES, HOUR or DAY"),
        ("", "write one such as 15 MINUTES, HOUR or DAY"),
        ("now and then", "write one such as 15 MINUTES, HOUR or DAY"),
    ],
)
def test_an_invalid_period_is_refused_with_a_suggestion(text: str, fix: str) -> None:
    with pytest.raises(WaterclockError) as refusal:
        parse_period(text)
    assert (refusal.value.code, refusal.value.what) == ("E102", f"cannot read {text!r} as a period")
    assert refusal.value.fix == fix


@pytest.mark.parametrize(
    ("unit", "count"), [(TimeUnit.MINUTE, 7), (TimeUnit.MINUTE, 0), (TimeUnit.MINUTE, 2880), (TimeUnit.DAY, 3)]
)
def test_an_illegal_period_cannot_be_made(unit: TimeUnit, count: int) -> None:
    with pytest.raises(WaterclockError) as refusal:
        Period(unit, count)
    assert refusal.value.code == "E102"
