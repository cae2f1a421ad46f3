"""Sources without new rows for unusually long are reported; those that merely pause are not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ledgers import SOMEWHERE, flow, table
from waterclock.batches.audit_records import MeasuredBatch
from waterclock.batches.progress_records import LabelRows
from waterclock.flow.declarations import Rule
from waterclock.flow.enums import Action, Kind, Scope
from waterclock.operations.silent_sources import LEAST, silence_of, silence_words, silences

ZONE = "Europe/Berlin"  # its clock is set back on 25 October 2026
BEGIN = datetime(2026, 9, 1, tzinfo=UTC)
Brings = Callable[[datetime], bool]


def of_hours(at: datetime) -> bool:
    """Return whether a shop that is open on weekdays and on Saturday mornings delivers rows."""
    return 8 <= at.hour < (13 if at.weekday() == 5 else 20) and at.weekday() < 6


CALENDARS: dict[str, tuple[str, Brings]] = {
    "always, by quarters": ("15 MINUTES", lambda _: True),
    "always, by hours": ("HOUR", lambda _: True),
    "by day": ("HOUR", lambda at: 6 <= at.hour < 23),
    "on weekdays by hours": ("HOUR", of_hours),
    "always, by days": ("DAY", lambda _: True),
    "on weekdays": ("DAY", lambda at: at.weekday() < 5),
    "on Mondays": ("DAY", lambda at: at.weekday() == 0),
    "on the first and the 15th": ("DAY", lambda at: at.day in {1, 15}),
    "each week": ("WEEK", lambda _: True),
}


def labels(every: str, brings: Brings, days: int) -> list[LabelRows]:
    cadence = table("raw.a", every=every, zone=ZONE).cadence
    zone = ZoneInfo(ZONE)
    noise = random.Random(7)
    windows = cadence.windows(cadence.floor(BEGIN), BEGIN + timedelta(days=days))
    return [LabelRows(it.start, noise.randint(1, 900) * brings(it.start.astimezone(zone))) for it in windows]


def told(every: str, history: Iterable[LabelRows]) -> bool:
    collected = table("raw.a", partitioned=True, every=every, zone=ZONE, kind=Kind.COLLECT)
    return silence_of(collected, list(history)[-1500:]) is not None


@pytest.mark.parametrize("hours", [2, 6])
def test_a_source_that_stops_as_the_clock_changes_is_silent(hours: int) -> None:
    changed = datetime(2026, 10, 25, 1, tzinfo=UTC)
    history = [
        LabelRows(it.label, it.rows * (it.label < changed)) for it in labels(f"{hours} HOURS", lambda _: True, 60)
    ]
    assert told(f"{hours} HOURS", history)


@pytest.mark.parametrize("name", CALENDARS)
def test_no_source_that_keeps_its_calendar_is_silent_on_any_of_ninety_days(name: str) -> None:
    every, brings = CALENDARS[name]
    past = labels(every, brings, 90)
    # an alert about a silence also holds for a longer one, so each silence is checked just before it ends
    ends = [at for at in range(1, len(past)) if past[at].rows and not past[at - 1].rows]
    assert [past[at - 1].label for at in [*ends, len(past)] if told(every, past[:at])] == []


@pytest.mark.parametrize(
    ("name", "within"),
    [
        ("always, by quarters", timedelta(minutes=45)),
        ("always, by hours", timedelta(hours=3)),
        ("by day", timedelta(hours=11)),
        ("on weekdays by hours", timedelta(days=2, hours=16)),
        ("always, by days", timedelta(days=2)),
        ("on weekdays", timedelta(days=4)),
    ],
)
def test_a_source_that_stops_is_reported_soon(name: str, within: timedelta) -> None:
    every, brings = CALENDARS[name]
    past = labels(every, brings, 90)
    step = past[1].label - past[0].label
    for stopped in (len(past) // 2, len(past) // 2 + 5, len(past) * 2 // 3):
        after = past[:stopped] + [LabelRows(each.label, 0) for each in past[stopped:]]
        first = next(at for at in range(stopped, len(after)) if told(every, after[: at + 1]))
        assert after[first].label + step - after[stopped].label <= within


def test_rows_that_come_late_end_a_silence_and_one_of_the_past_hides_none() -> None:
    past = labels("DAY", lambda _: True, 60)
    empty = [LabelRows(each.label, 0) for each in past[-3:]]
    assert told("DAY", past[:-3] + empty)
    assert not told("DAY", [*past[:-3], *empty[:2], LabelRows(empty[2].label, 4)])
    outage = [LabelRows(each.label, 0) for each in past[20:30]]
    assert told("DAY", past[:20] + outage + past[30:-3] + empty)


def test_a_source_without_a_history_is_not_reported() -> None:
    short = labels("DAY", lambda at: at.day % 2 == 0, 2 * LEAST - 3)
    more = [LabelRows(short[-1].label + timedelta(days=day), 0) for day in range(1, 40)]
    assert not told("DAY", short + more)
    assert not told("DAY", more)
    assert not told("DAY", [])


def test_a_silence_is_reported_with_its_start_and_its_expected_labels() -> None:
    collected = table("raw.a", partitioned=True, kind=Kind.COLLECT)
    past = [LabelRows(BEGIN + timedelta(days=day), 5 if day < 50 else 0) for day in range(53)]
    found = silence_of(collected, past)
    assert found is not None
    assert (found.labels, found.expected) == (3, 3)
    assert silence_words(found, flow(collected)) == (
        "no rows arrived for 2026-10-21 .. 2026-10-23 (3 labels), although rows usually arrive then"
    )
    assert found.to_json()["since"] == "20261021000000"


def test_a_source_whose_rows_are_all_dropped_is_not_silent() -> None:
    rule = Rule("v < 9", "small", Scope.ROW, Action.DROP, SOMEWHERE)
    collected = replace(table("raw.a", partitioned=True, kind=Kind.COLLECT), rules=(rule,))
    rows = [LabelRows(BEGIN + timedelta(days=day), 5 if day < 50 else 0) for day in range(53)]

    def found(dropped: int) -> int:
        counted = (MeasuredBatch(rows[-1].label, 0, {"dropped": dropped}),)
        past: Any = SimpleNamespace(
            empty_at_last=frozenset, newest_rows=lambda *_: {"raw.a": rows}, newest_counted=lambda *_: counted
        )
        return len(silences(flow(collected), past, ["raw.a"]))

    assert (found(0), found(7)) == (1, 0)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=120), st.integers(0, 20))
def test_a_longer_silence_is_reported_wherever_a_shorter_one_is(rows: list[int], more: int) -> None:
    history = [LabelRows(BEGIN + timedelta(days=day), count) for day, count in enumerate(rows)]
    longer = history + [LabelRows(BEGIN + timedelta(days=len(rows) + day), 0) for day in range(more)]
    assert told("DAY", longer) or not told("DAY", history)
    assert not told("DAY", [*longer, LabelRows(BEGIN + timedelta(days=900), 1)])
