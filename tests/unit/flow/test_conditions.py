from __future__ import annotations

import calendar
import operator
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import islice, product
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.model.flows import cadence, condition
from waterclock.dpl.resolve.conditions import condition_of
from waterclock.dpl.syntax.clause_parsing import parse_clause
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.errors import WaterclockError
from waterclock.flow.conditions import Condition
from waterclock.timelabel.window import Window

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "America/Santiago")
# days on which clocks are set forward or back, a skipped day (Apia), the end of leap and common Februaries, new years
DAYS = (
    "2011-12-30", "2012-02-29", "2013-03-10", "2013-03-31", "2013-10-27", "2013-11-03", "2016-12-31", "2020-02-28",
    "2020-02-29", "2021-01-01", "2023-09-03", "2024-03-10",
)  # fmt: skip


@cache
def windows_around(zone: str, *days: str) -> tuple[Window, ...]:
    """Return days by the clock of the zone, and hours, around each of some days."""
    found: list[Window] = []
    for text in days or DAYS:
        middle = datetime.fromisoformat(text).replace(tzinfo=UTC)
        for period, own in (("HOUR", "UTC"), ("DAY", zone)):
            found += cadence(period, zone=own).windows(middle - timedelta(days=1), middle + timedelta(days=2))
    return tuple(found)


def days_since_monday_of(day: date) -> int:
    return (day.toordinal() - 1) % 7


@cache
def week_of(day: date) -> int:
    """Number a week by its Thursday, counted from the first Thursday of that year."""
    thursday = day + timedelta(days=3 - days_since_monday_of(day))
    return sum(
        days_since_monday_of(date(thursday.year, 1, 1) + timedelta(days=each)) == 3
        for each in range((thursday - date(thursday.year, 1, 1)).days + 1)
    )


BY_HAND: dict[str, Callable[[datetime], int]] = {
    "year": lambda t: t.year,
    "quarter": lambda t: {1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 3, 8: 3, 9: 3, 10: 4, 11: 4, 12: 4}[t.month],
    "month": lambda t: t.month,
    "day": lambda t: t.day,
    "dayofmonth": lambda t: t.day,
    "dayofyear": lambda t: sum(calendar.monthrange(t.year, month)[1] for month in range(1, t.month)) + t.day,
    "dayofweek": lambda t: [2, 3, 4, 5, 6, 7, 1][days_since_monday_of(t.date())],
    "weekday": lambda t: days_since_monday_of(t.date()),
    "weekofyear": lambda t: week_of(t.date()),
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("part", BY_HAND)
def test_parts_of_a_time_are_those_of_the_clock_in_the_zone(part: str, zone: str) -> None:
    by_value: dict[int, Condition] = {}
    for window in windows_around(zone):
        wanted = by_hand(part, zone, window.start)
        if wanted not in by_value:
            by_value[wanted] = condition(f"{part}(WINDOW_START()) = {wanted}", zone)
        assert by_value[wanted].is_true_for(window)
    for value, found in islice(by_value.items(), 5):
        for window in islice(windows_around(zone), 0, None, 7):
            assert found.is_true_for(window) == (by_hand(part, zone, window.start) == value), (window.label, value)


@cache
def by_hand(part: str, zone: str, instant: datetime) -> int:
    return BY_HAND[part](instant.astimezone(ZoneInfo(zone)))


SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne,
}  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("text", DAYS[::3])
def test_instants_dates_and_texts_are_compared_in_the_zone(text: str, zone: str) -> None:
    rules, day, windows = ZoneInfo(zone), date.fromisoformat(text), windows_around(zone, text)
    first = datetime.fromisoformat(text).replace(tzinfo=UTC) - timedelta(days=2)
    while first.astimezone(rules).date() < day:
        first += timedelta(minutes=15)  # the first instant of the date, or of the next one
    at_six = datetime.fromisoformat(text).replace(hour=6, tzinfo=UTC)
    said: dict[str, Callable[[Window], tuple[object, object]]] = {
        f"WINDOW_START() ? '{text}'": lambda window: (window.start, first),
        f"WINDOW_END() ? DATE '{text}'": lambda window: (window.end, first),
        f"'{text} 06:00Z' ? WINDOW_START()": lambda window: (at_six, window.start),
        f"date(WINDOW_START()) ? '{text}'": lambda window: (window.start.astimezone(rules).date(), day),
        f"CAST(WINDOW_END() AS DATE) ? to_date('{text}')": lambda window: (window.end.astimezone(rules).date(), day),
        f"TIMELABEL() ? '{day:%Y%m%d}000000'": lambda window: (window.label, f"{day:%Y%m%d}000000"),
    }
    for sides, values in said.items():
        for sign, compare in SIGNS.items():
            found = condition(sides.replace("?", sign), zone)
            for window in windows:
                assert found.is_true_for(window) == compare(*values(window)), (sides, sign, window.label)


VALUES = {"TRUE": True, "FALSE": False, "NULL": None}


def both(left: bool | None, right: bool | None) -> bool | None:
    return False if False in (left, right) else None if None in (left, right) else True


def either(left: bool | None, right: bool | None) -> bool | None:
    return True if True in (left, right) else None if None in (left, right) else False


def test_logic_has_three_values() -> None:
    window = Window(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC))

    def shown(text: str) -> bool | None:
        return (
            True
            if condition(text).is_true_for(window)
            else None
            if condition(f"({text}) IS NULL").is_true_for(window)
            else False
        )

    for (one, left), (other, right) in product(VALUES.items(), repeat=2):
        alike = None if None in (left, right) else left == right
        assert shown(f"{one} AND {other}") is both(left, right)
        assert shown(f"{one} OR {other}") is either(left, right)
        assert shown(f"{one} = {other}") is alike
        assert shown(f"{one} <> {other}") is (None if alike is None else not alike)
        assert shown(f"{one} <=> {other}") is (left is right)
        assert shown(f"NOT {one}") is (None if left is None else not left)
        assert shown(f"{one} IS TRUE") is (left is True)
        assert shown(f"{one} IS NOT FALSE") is (left is not False)
        assert shown(f"{one} IN ({other}, TRUE)") is (None if left is None else either(alike, left is True))
    assert shown("5 BETWEEN NULL AND 4") is False
    assert shown("5 BETWEEN NULL AND 6") is None
    assert shown("5 NOT BETWEEN 1 AND 4") is True
    assert shown("WINDOW_START() < NULL") is None
    assert shown("month(NULL) = 1") is None


def test_whole_numbers_are_counted_as_in_sql() -> None:
    window = Window(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC))
    for said in ("-7 % 3 = -1", "7 % -3 = 1", "mod(7, 3) = 1", "2 * 3 - 1 = 5", "-(2 + 1) = -3", "1.5 > 1", "2L = 2"):
        assert condition(said).is_true_for(window), said


def test_project_variables_keep_their_types_in_a_condition() -> None:
    window = Window(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC))
    variables: dict[str, Any] = {
        "land": "DE", "since": "2024-01-01", "day": date(2024, 1, 1), "at": datetime(2024, 1, 1, 5, 30),  # noqa: DTZ001
        "none": None, "open": True, "share": 0.5,
    }  # fmt: skip

    def holds(text: str, zone: str = "UTC") -> bool:
        errors: list[WaterclockError] = []
        said = parse_clause("WHEN", text, SourceText("t", text), variables=variables)
        found = condition_of(said, variables, zone, errors)
        assert found is not None, errors
        assert found.text == text
        return found.is_true_for(window)

    assert holds(":land = 'DE' AND WINDOW_START() >= :since AND date(WINDOW_START()) = :day")
    assert not holds("WINDOW_START() >= :since", "America/New_York")
    assert holds(":at = WINDOW_START()", "Asia/Kolkata")
    assert holds(":at > WINDOW_START() AND :open AND :none IS NULL AND :share < 1 AND NOT :share >= 0.6")


FORMS = ("WINDOW_{}() {} '{}'", "date(WINDOW_{}()) {} '{}'", "'{2}' {1} to_date(WINDOW_{0}())")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Pacific/Apia"])
def test_between_its_turns_a_condition_does_not_turn(zone: str) -> None:
    random = Random(7)
    windows = windows_around(zone)
    for _ in range(20):
        parts = [
            random.choice(FORMS).format(
                random.choice(("START", "END")), random.choice(tuple(SIGNS)), random.choice(DAYS)
            )
            for _ in range(random.choice((1, 2, 3)))
        ]
        found = condition(random.choice((" AND ", " OR NOT ")).join(parts), zone)
        turns = found.turns()
        assert turns is not None
        assert len(turns) <= 2 * len(parts)
        by_stretch: dict[int, set[bool]] = {}
        for window in windows:
            if not any(window.start <= turn <= window.end for turn in turns):
                stretch = sum(turn < window.start for turn in turns)
                by_stretch.setdefault(stretch, set()).add(found.is_true_for(window))
        assert all(len(each) == 1 for each in by_stretch.values())


@pytest.mark.parametrize("text", ["day(WINDOW_END()) = 1", "TIMELABEL() < '2024'", "WINDOW_START() < WINDOW_END()"])
def test_a_condition_that_may_change_at_any_instant_has_no_turns(text: str) -> None:
    assert condition(text).turns() is None
