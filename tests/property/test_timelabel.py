"""The clock held against brute force: every minute, every firing, every instant is looked at one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import TypeVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from waterclock.errors import WaterclockError
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.cron import compile_cron
from waterclock.timelabel.duration import Duration, parse_duration
from waterclock.timelabel.fitting import consists_of_windows
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import hive_path, instant_of, label_of, label_of_hive_path, label_of_parts, parts_of
from waterclock.timelabel.period import MINUTE_COUNTS, Period, TimeUnit, parse_period
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import nominal_zone, parse_instant, resolve_local
from waterclock.timelabel.zone_history import offset_changes

T = TypeVar("T")
ZONES = [
    "UTC",
    "America/New_York",
    "America/Sao_Paulo",  # days from 01:00
    "America/Goose_Bay",  # 00:01 back to 23:01 of the day before
    "America/Havana",  # 01:00 back to 00:00
    "America/St_Johns",
    "Africa/Cairo",
    "Africa/Casablanca",  # summer time stops for Ramadan
    "Africa/Monrovia",
    "Antarctica/Troll",  # two hours
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Lord_Howe",  # half an hour
    "Europe/Amsterdam",
    "Europe/Berlin",
    "Europe/London",
    "Pacific/Apia",  # 2011-12-30 never was
    "Pacific/Chatham",
    "Pacific/Kiritimati",  # 1994-12-31 never was
    "Pacific/Kwajalein",  # 1993-08-21 never was
]
CALENDAR = [Period(unit) for unit in TimeUnit if unit is not TimeUnit.MINUTE]
MINUTES = [Period(TimeUnit.MINUTE, count) for count in MINUTE_COUNTS]
FIRST, LAST = datetime(1973, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
ODD_TIMES = [
    ("Europe/Amsterdam", datetime(1936, 5, 15, 12, tzinfo=UTC)),
    ("Europe/Amsterdam", datetime(1940, 5, 16, 12, tzinfo=UTC)),
    ("America/Toronto", datetime(1919, 3, 31, 2, tzinfo=UTC)),
    ("Africa/Monrovia", datetime(1972, 1, 9, 12, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 30, 9, 59, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),
    ("Pacific/Kwajalein", datetime(1969, 10, 1, 1, tzinfo=UTC)),
]

instants = st.datetimes(datetime(1973, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC)).map(  # noqa: DTZ001  # its API
    lambda t: t.replace(fold=0)
)
whole_minutes = instants.map(lambda t: t.replace(second=0, microsecond=0))


def outcome(ask: Callable[[], T]) -> T | str:
    """What is answered, or the code it is refused with."""
    try:
        return ask()
    except WaterclockError as refusal:
        return refusal.code


@st.composite
def zones_with_instants(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone and an instant, mostly within two days of a change of its offset."""
    zone = draw(st.sampled_from(ZONES))
    changes = [at for at, _ in offset_changes(zone) if FIRST < at < LAST]
    if not changes or draw(st.integers(0, 3)) == 0:
        return zone, draw(instants)
    return zone, draw(st.sampled_from(changes)) + draw(st.timedeltas(-2 * DAY, 2 * DAY))


def number(unit: TimeUnit, day: date) -> tuple[int, int]:
    """Say which calendar window a date is of, not as the clock does it."""
    week = day.isocalendar()
    return {
        TimeUnit.DAY: (0, day.toordinal()),
        TimeUnit.WEEK: (week.year, week.week),
        TimeUnit.MONTH: (day.year, day.month),
        TimeUnit.QUARTER: (day.year, (day.month + 2) // 3),
        TimeUnit.YEAR: (day.year, 0),
    }[unit]


def boundaries_by_minutes(unit: TimeUnit, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """Look at each minute: a window begins where the local date is for the first time of a later window."""
    rules = nominal_zone(zone)
    t = (start - 2 * DAY).replace(second=0, microsecond=0)
    newest = number(unit, t.astimezone(rules))
    found = []
    while t <= end:
        current = number(unit, t.astimezone(rules))
        if current > newest:
            newest = current
            if t >= start:
                found.append(t)
        t += MINUTE
    return found


# --- cadences ---


@given(zones_with_instants(), st.sampled_from(CALENDAR))
def test_calendar_boundaries_are_those_found_minute_by_minute(where: tuple[str, datetime], period: Period) -> None:
    zone, t = where
    cadence = Cadence(period, zone=zone)
    start, end = t - DAY, t + DAY
    found = boundaries_by_minutes(period.unit, zone, start, end)
    begin = cadence.ceil(start)
    ours = []
    while begin <= end:
        ours.append(begin)
        begin = cadence.next(begin)
    assert ours == found


@pytest.mark.parametrize(("zone", "t"), ODD_TIMES)
def test_odd_days_of_the_past_are_those_found_minute_by_minute(zone: str, t: datetime) -> None:
    cadence = Cadence(Period(TimeUnit.DAY), zone=zone)
    start, end = t - DAY, t + DAY
    found = boundaries_by_minutes(TimeUnit.DAY, zone, start, end)
    assert [window.start for window in cadence.windows(start, cadence.next(end))] == found


@given(zones_with_instants(), st.sampled_from(MINUTES))
def test_minute_boundaries_divide_the_utc_day(where: tuple[str, datetime], period: Period) -> None:
    zone, t = where
    cadence = Cadence(period, zone=zone)
    midnight = t.replace(hour=0, minute=0, second=0, microsecond=0)
    floor = max(m for m in (midnight + k * timedelta(minutes=period.count) for k in range(1440)) if m <= t)
    assert cadence.floor(t) == floor
    assert cadence.next(t) == floor + timedelta(minutes=period.count)


periods = st.sampled_from(CALENDAR + MINUTES)


@given(zones_with_instants(), periods)
def test_floor_ceil_next_and_previous_agree(where: tuple[str, datetime], period: Period) -> None:
    zone, t = where
    cadence = Cadence(period, zone=zone)
    floor, ceil, after, before = cadence.floor(t), cadence.ceil(t), cadence.next(t), cadence.previous(t)
    assert before < t < after
    assert floor <= t <= ceil
    assert ceil == (t if floor == t else after)
    assert before == (cadence.previous(floor) if floor == t else floor)
    assert cadence.floor(floor) == cadence.ceil(floor) == floor
    assert cadence.next(cadence.previous(floor)) == cadence.previous(cadence.next(floor)) == floor
    assert cadence.is_boundary(floor)
    assert cadence.is_boundary(t) == (floor == t)
    window = cadence.window_of(t)
    assert window == Window(floor, after)
    assert window.contains(t)
    assert cadence.window(window.label) == window
    assert all(boundary.tzinfo is UTC and boundary.second == 0 for boundary in (floor, ceil, after, before))


def span_of(period: Period) -> timedelta:
    return timedelta(minutes=period.minutes)


@given(zones_with_instants(), periods, st.floats(0, 12), st.floats(-1, 1))
def test_windows_tile_time_and_are_counted_without_making_them(
    where: tuple[str, datetime], period: Period, length: float, shift: float
) -> None:
    zone, t = where
    cadence = Cadence(period, zone=zone)
    start = t + shift * span_of(period)
    end = start + length * span_of(period)
    windows = list(cadence.windows(start, end))
    assert all(before.end == after.start for before, after in pairwise(windows))
    assert cadence.count(start, end) == len(windows)
    if windows:
        assert cadence.previous(windows[0].start) < start <= windows[0].start
        assert windows[-1].end <= end < cadence.next(windows[-1].end)
        assert cadence.shift(windows[0].start, len(windows)) == windows[-1].end
        assert cadence.shift(windows[-1].end, -len(windows)) == windows[0].start
    else:
        assert cadence.next(cadence.ceil(start)) > end


@given(st.sampled_from(["Pacific/Apia", "Pacific/Kwajalein", "Pacific/Kiritimati"]), st.integers(0, 9000))
def test_shifting_and_counting_days_step_over_skipped_dates(zone: str, days: int) -> None:
    cadence = Cadence(Period(TimeUnit.DAY), zone=zone)
    start = cadence.ceil(datetime(1993, 1, 1, tzinfo=UTC))
    end = cadence.shift(start, days)
    assert cadence.count(start, end) == days
    assert cadence.shift(end, -days) == start


@given(zones_with_instants(), periods, st.timedeltas(timedelta(0), timedelta(days=40)))
def test_the_last_due_boundary_is_the_newest_whose_delay_has_passed(
    where: tuple[str, datetime], period: Period, delay: timedelta
) -> None:
    zone, now = where
    # four years before the last due one: E105 refuses days before 1972, off UTC by seconds
    assume(zone != "Africa/Monrovia" or period.unit is TimeUnit.MINUTE or now.year >= 1978)
    cadence = Cadence(period, delay, zone)
    due = cadence.last_due(now)
    assert due + delay <= now < cadence.next(due) + delay
    start = cadence.shift(due, -3)
    by_hand = [window for window in cadence.windows(start, now) if cadence.due_at(window) <= now]
    assert list(cadence.windows(start, due)) == by_hand
    assert len(by_hand) == 3


# --- labels, spans and zone-less values ---


@given(st.datetimes(timezones=st.just(UTC)).map(lambda t: t.replace(second=0, microsecond=0)))
def test_a_label_is_one_to_one_with_its_instant_parts_and_folder(t: datetime) -> None:
    label = label_of(t)
    assert instant_of(label) == t
    assert label_of_parts(parts_of(label)) == label
    assert label_of_hive_path(hive_path(label)) == label
    assert parse_instant(label, "Asia/Tokyo") == t


@given(st.lists(whole_minutes, min_size=2, max_size=2, unique=True))
def test_labels_sort_as_their_instants(pair: list[datetime]) -> None:
    assert [label_of(t) for t in sorted(pair)] == sorted(label_of(t) for t in pair)


@given(st.text(st.sampled_from("0123456789-T: Z"), max_size=16))
def test_an_invalid_label_is_refused_and_causes_no_crash(text: str) -> None:
    assert outcome(lambda: label_of(instant_of(text))) in {text, "E101"}


@given(st.integers(0, 10_000), st.sampled_from(["SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"]))
def test_every_span_of_words_is_legal_or_refused_with_a_legal_one(amount: int, unit: str) -> None:
    duration = parse_duration(f"{amount} {unit}S")
    assert parse_duration(str(duration)) == duration
    period = outcome(lambda: parse_period(f"{amount} {unit}"))
    if isinstance(period, Period):
        assert parse_period(str(period)) == period
    else:
        assert period == "E102"
        with pytest.raises(WaterclockError) as refusal:
            parse_period(f"{amount} {unit}")
        legal = str(refusal.value.fix).removeprefix("use the nearest: ").split(" or ")
        assert [str(parse_period(text)) for text in legal] == legal


@given(zones_with_instants(), st.integers(0, 400), st.sampled_from([TimeUnit.DAY, TimeUnit.WEEK]))
def test_days_before_the_start_of_a_local_date_are_the_start_of_one(
    where: tuple[str, datetime], amount: int, unit: TimeUnit
) -> None:
    zone, t = where
    assume(zone != "Africa/Monrovia" or t.year >= 1981)  # else days before 1972, off UTC by seconds
    daily = Cadence(Period(TimeUnit.DAY), zone=zone)
    midnight = daily.next(t)
    duration = parse_duration(f"{amount} {unit}")
    for moved, sign in ((duration.subtract_from(midnight, zone), -1), (duration.add_to(midnight, zone), 1)):
        assert daily.is_boundary(moved)
        days = amount * (7 if unit is TimeUnit.WEEK else 1)
        target = midnight.astimezone(nominal_zone(zone)).toordinal() + sign * days
        # a skipped date starts when the next one does
        assert moved.astimezone(nominal_zone(zone)).toordinal() - target in {0, 1}


@given(instants, st.integers(0, 10**6), st.sampled_from(ZONES))
def test_elapsed_spans_undo_each_other(t: datetime, amount: int, zone: str) -> None:
    duration = Duration(amount, "MINUTE")
    assert duration.add_to(duration.subtract_from(t, zone), zone) == t
    assert t - duration.subtract_from(t, zone) == duration.to_timedelta() == timedelta(minutes=amount)


@given(zones_with_instants())
def test_a_local_time_is_read_back_at_its_first_pass(where: tuple[str, datetime]) -> None:
    zone, t = where
    local = t.astimezone(nominal_zone(zone))
    resolved = resolve_local(local.replace(tzinfo=None), zone)
    if local.fold:
        assert resolved < t
    else:
        assert resolved == t


# --- fitting ---


@cache
def boundaries(period: str, zone: str) -> frozenset[datetime]:
    """All boundaries of 1971 to 2030; those that no label can name are left out."""
    cadence = Cadence(parse_period(period), zone=zone)
    begin = datetime(1972, 1, 8, tzinfo=UTC) if zone == "Africa/Monrovia" else datetime(1971, 1, 1, tzinfo=UTC)
    end = datetime(2030, 1, 1, tzinfo=UTC)
    return frozenset(window.start for window in cadence.windows(cadence.ceil(begin), end))


def is_minute_boundary(t: datetime, period: str) -> bool:
    return ((t - EPOCH) // MINUTE) % parse_period(period).count == 0


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "zone",
    [
        "UTC",
        "Africa/Casablanca",
        "Africa/Monrovia",
        "America/New_York",
        "America/Sao_Paulo",
        "Antarctica/Troll",
        "Asia/Kathmandu",
        "Asia/Kolkata",
        "Australia/Lord_Howe",
        "Pacific/Chatham",
    ],
)
def test_minutes_that_make_up_a_day_are_those_found_by_looking_at_each(zone: str) -> None:
    days = boundaries("DAY", zone)
    daily = Cadence(Period(TimeUnit.DAY), zone=zone)
    for period in ("15 MINUTES", "30 MINUTES", "HOUR", "2 HOURS", "24 HOURS"):
        by_hand = all(is_minute_boundary(start, period) for start in days)
        assert consists_of_windows(daily, Cadence(parse_period(period))) == by_hand, period


@pytest.mark.parametrize(
    ("reader", "read"),
    [
        (("DAY", "Europe/Berlin"), ("DAY", "Arctic/Longyearbyen")),
        (("DAY", "Europe/Paris"), ("DAY", "Europe/Berlin")),
        (("DAY", "Europe/Amsterdam"), ("DAY", "Europe/Brussels")),
        (("WEEK", "Europe/Berlin"), ("DAY", "Europe/Berlin")),
        (("WEEK", "Pacific/Apia"), ("DAY", "Pacific/Apia")),
        (("DAY", "Pacific/Apia"), ("DAY", "Pacific/Pago_Pago")),
        (("WEEK", "America/New_York"), ("WEEK", "America/Toronto")),
        (("MONTH", "America/Sao_Paulo"), ("DAY", "America/Sao_Paulo")),
        (("MONTH", "Europe/Berlin"), ("WEEK", "Europe/Berlin")),
        (("YEAR", "Asia/Tokyo"), ("MONTH", "Asia/Seoul")),
        (("YEAR", "Europe/Madrid"), ("QUARTER", "Europe/Paris")),
        (("QUARTER", "Europe/London"), ("MONTH", "Europe/Dublin")),
        (("QUARTER", "Asia/Kolkata"), ("MONTH", "Asia/Colombo")),
    ],
)
def test_calendar_windows_fit_where_every_boundary_is_found_in_the_other(
    reader: tuple[str, str], read: tuple[str, str]
) -> None:
    of_reader, of_read = (Cadence(parse_period(period), zone=zone) for period, zone in (reader, read))
    assert consists_of_windows(of_reader, of_read) == (boundaries(*reader) <= boundaries(*read))


@given(st.sampled_from(MINUTES), st.sampled_from(MINUTES))
def test_minutes_fit_where_a_day_shows_it(reader: Period, read: Period) -> None:
    day = range(1441)
    by_hand = {m for m in day if m % reader.count == 0} <= {m for m in day if m % read.count == 0}
    assert consists_of_windows(Cadence(reader, zone="Asia/Kolkata"), Cadence(read)) == by_hand


@given(st.sampled_from(CALENDAR), st.sampled_from(CALENDAR), st.sampled_from(ZONES), st.sampled_from(ZONES))
def test_a_cadence_that_consists_of_whole_windows_never_splits_a_window(
    reader: Period, read: Period, zone: str, other: str
) -> None:
    of_reader, of_read = Cadence(reader, zone=zone), Cadence(read, zone=other)
    if consists_of_windows(of_reader, of_read):
        start = datetime(2009, 1, 1, tzinfo=UTC)
        ends = [window.start for window in of_reader.windows(start, datetime(2013, 1, 1, tzinfo=UTC))]
        assert all(of_read.is_boundary(t) for t in ends)


# --- cron ---


def field(low: int, high: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """A cron field's text with the values it lists."""
    full = frozenset(range(low, high + 1))
    value = st.integers(low, high)
    steps = st.sampled_from([2, 3, 4, 5, 6, 7, 10, 12, 15, 20, 30])
    return st.one_of(
        st.just(("*", full)),
        value.map(lambda v: (str(v), frozenset({v}))),
        st.tuples(st.sampled_from([low, low + 1]), steps).map(
            lambda p: (f"{p[0]}-{high}/{p[1]}", frozenset(range(p[0], high + 1, p[1])))
        ),
        steps.map(lambda s: (f"*/{s}", frozenset(range(low, high + 1, s)))),
        st.lists(value, min_size=2, max_size=4, unique=True).map(
            lambda vs: (",".join(map(str, vs)), frozenset(vs)),
        ),
    )


STAR = st.just(("*", frozenset[int]()))
QUARTERS = st.just(("1,4,7,10", frozenset({1, 4, 7, 10})))


def firings(fields: list[tuple[str, frozenset[int]]], start: datetime, days: int) -> Iterator[datetime]:
    """Ask of each day, as crond does, whether the cron fires, and list its firings."""
    (_, minutes), (_, hours), (dates_text, dates), (_, months), (weekdays_text, weekdays) = fields
    for day in (start + k * DAY for k in range(days)):
        by_date = dates_text == "*" or day.day in dates
        by_weekday = weekdays_text == "*" or day.isoweekday() % 7 in weekdays
        both = dates_text.startswith("*") or weekdays_text.startswith("*")
        if (by_date and by_weekday if both else by_date or by_weekday) and (not months or day.month in months):
            for hour in sorted(hours):
                yield from (day.replace(hour=hour, minute=minute) for minute in sorted(minutes))


def uniform(found: list[datetime], start: datetime, end: datetime) -> set[tuple[Period, timedelta]]:
    """All (period, delay) under which each window has one firing, always as long after its start."""
    legal = set()
    for period in CALENDAR + MINUTES:
        cadence = Cadence(period)
        if cadence.count(start, end) == len(found):
            delays = {t - window.start for t, window in zip(found, cadence.windows(start, end), strict=True)}
            if len(delays) == 1 and timedelta(0) <= min(delays) and found[-1] < end:
                legal.add((period, delays.pop()))
    return legal


@given(
    st.one_of(
        st.tuples(field(0, 59), field(0, 23), STAR, STAR, STAR),
        st.tuples(
            st.integers(0, 59).map(lambda m: (str(m), frozenset({m}))),
            st.integers(0, 23).map(lambda h: (str(h), frozenset({h}))),
            st.one_of(STAR, field(1, 31)),
            st.one_of(STAR, QUARTERS, field(1, 12)),
            st.one_of(STAR, field(0, 6)),
        ),
    )
)
def test_a_compiled_cron_is_due_when_the_cron_fires_and_one_refused_has_no_legal_period(
    drawn: tuple[tuple[str, frozenset[int]], ...],
) -> None:
    fields = list(drawn)
    within_day = all(text == "*" for text, _ in fields[2:])
    # from a Monday that starts a year, a quarter and a month; long enough for a leap year
    start, days = datetime(2018, 1, 1, tzinfo=UTC), 7 if within_day else 6 * 365 + 1
    found = list(firings(fields, start, days))
    legal = uniform(found, start, start + days * DAY) if found else set()
    schedule = " ".join(text for text, _ in fields)
    cadence = outcome(lambda: compile_cron(schedule))
    if not isinstance(cadence, Cadence):
        assert cadence == "E104"
        assert not legal, schedule
    else:
        assert (cadence.period, cadence.delay) in legal
        lead, end = 2 * DAY if within_day else 400 * DAY, start + days * DAY
        due = [cadence.due_at(window) for window in cadence.windows(start - lead, end)]
        assert [t for t in due if start <= t < end] == found


@pytest.mark.parametrize(
    "zone", ["Asia/Kolkata", "Asia/Kathmandu", "Asia/Tokyo", "America/New_York", "Pacific/Chatham"]
)
@pytest.mark.parametrize(
    "schedule", ["10 * * * *", "*/5 * * * *", "7-59/20 * * * *", "45 23 * * *", "0 3 * * 4", "0 6 9 * *"]
)
def test_a_cron_of_a_zone_is_due_at_its_local_firings_away_from_changes_of_the_clock(zone: str, schedule: str) -> None:
    cadence = compile_cron(schedule, zone)
    minute, hour, day, _, weekday = schedule.split()
    lists = {
        "10": [10],
        "*/5": list(range(0, 60, 5)),
        "7-59/20": [7, 27, 47],
    }.get(minute, [int(minute)] if minute.isdigit() else [])
    begin, end = datetime(2030, 5, 1, tzinfo=UTC), datetime(2030, 8, 1, tzinfo=UTC)
    due = {cadence.due_at(window) for window in cadence.windows(begin - 45 * DAY, end + DAY)}
    by_hand = set()
    t = begin
    while t < end:
        local = t.astimezone(nominal_zone(zone))
        if (
            local.minute in lists
            and (hour == "*" or local.hour == int(hour))
            and (day == "*" or local.day == int(day))
            and (weekday == "*" or local.isoweekday() % 7 == int(weekday))
        ):
            by_hand.add(t)
        t += timedelta(minutes=1 if minute == "7-59/20" else 5)
    assert {t for t in due if begin <= t < end} == by_hand


# --- interval sets ---

spans = st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda p: (p[0], p[0] + p[1]))
span_lists = st.lists(spans, max_size=8)


def minute(k: int) -> datetime:
    return FIRST + k * MINUTE


def as_set(pairs: list[tuple[int, int]]) -> set[int]:
    return {k for start, end in pairs for k in range(start, end)}


def intervals(pairs: list[tuple[int, int]]) -> IntervalSet:
    return IntervalSet.from_intervals((minute(start), minute(end)) for start, end in pairs)


def minutes_in(covered: IntervalSet) -> set[int]:
    return {k for k in range(-2, 60) if any(start <= minute(k) < end for start, end in covered)}


def assert_normal(covered: IntervalSet) -> None:
    edges = [t for interval in covered for t in interval]
    assert edges == sorted(set(edges))


@given(span_lists, span_lists)
def test_interval_sets_are_sets_of_minutes(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    a, b, in_a, in_b = intervals(left), intervals(right), as_set(left), as_set(right)
    for ours, expected in (
        (a, in_a),
        (a | b, in_a | in_b),
        (a & b, in_a & in_b),
        (a - b, in_a - in_b),
        (IntervalSet.merge([a, b, a]), in_a | in_b),
    ):
        assert minutes_in(ours) == expected
        assert_normal(ours)
    assert (a == b) == (in_a == in_b)
    assert bool(a) == bool(in_a)


@given(span_lists, spans)
def test_covering_and_gaps_are_those_of_the_minutes(pairs: list[tuple[int, int]], span: tuple[int, int]) -> None:
    covered, held = intervals(pairs), as_set(pairs)
    asked = set(range(*span))
    start, end = minute(span[0]), minute(span[1])
    assert covered.covers(start, end) == (asked <= held)
    assert not asked or covered.overlaps(start, end) == bool(asked & held)
    gaps = covered.gaps(start, end)
    assert minutes_in(gaps) == asked - held
    assert_normal(gaps)
    assert covered.first_gap(start, end) == next(iter(gaps), None)
    assert all(covered.covers_instant(minute(k)) == (k in held) for k in range(-1, 50))


@given(st.lists(st.integers(0, 3), max_size=30))
def test_adding_windows_one_by_one_gives_the_set_of_all(steps: list[int]) -> None:
    grown, at, pairs = IntervalSet(), 0, []
    for step in steps:
        grown = grown.add(minute(at + step), minute(at + step + 1))
        pairs.append((at + step, at + step + 1))
        at += step + 1
    assert grown == intervals(pairs)
