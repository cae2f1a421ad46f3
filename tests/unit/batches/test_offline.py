from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.ledgers import day, table
from waterclock.batches.offline import (
    NEVER,
    KeptLabel,
    OfflineRun,
    has_spans,
    is_due,
    next_measurement_time,
    spans_of,
    to_measure,
)
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.flow.measures import Measure, Offline
from waterclock.timelabel.period import parse_period


def measured(every: str = "WEEK", zone: str = "UTC", **more: object) -> Table:
    offline = Offline(parse_period(every), (Measure("rows_in", "count(*)"),))
    return replace(table("raw.a", partitioned=True, zone=zone), offline=offline, **more)  # type: ignore[arg-type]


def looked(of: Table, at: datetime, *, code: str | None = None) -> OfflineRun:
    assert of.offline is not None
    return OfflineRun(of.offline.code if code is None else code, at, at, 1, 0.1)


def kept(of: Table, claim: int, *, has_states: bool = True) -> KeptLabel:
    assert of.offline is not None
    return KeptLabel(claim, of.offline.code, has_states)


def test_a_measurement_is_due_at_its_next_cadence_boundary_or_after_a_code_change() -> None:
    of = measured("DAY")
    assert next_measurement_time(of, None) == NEVER
    assert is_due(of, None, day(0))
    look = looked(of, day(3) + timedelta(hours=9))
    assert next_measurement_time(of, look) == day(4)
    assert (is_due(of, look, day(4) - timedelta(seconds=1)), is_due(of, look, day(4))) == (False, True)
    assert is_due(of, looked(of, day(3), code="older"), day(3))
    assert is_due(of, look, day(2)), "the clock was set back: otherwise it would wait until then"
    assert not is_due(of, look, day(3)), "another runner has measured some hours later"
    assert not is_due(table("raw.b"), None, day(9))


def test_the_edges_are_those_of_the_zone() -> None:
    of = measured("DAY", zone="America/New_York")
    assert next_measurement_time(of, looked(of, day(3))) == day(3) + timedelta(hours=5)


@pytest.mark.parametrize(
    ("of", "together"),
    [(measured(), True), (measured("DAY"), False), (measured(mode=Mode.REPLACE), False)],
    ids=["weeks of days", "days of days", "states"],
)
def test_labels_are_put_together_where_a_span_has_several_of_its_own_rows(of: Table, together: bool) -> None:
    assert has_spans(of) is together


def test_current_revisions_that_were_not_measured_are_to_be_measured() -> None:
    of = measured("DAY")
    current = {day(number): number + 10 for number in range(5)}
    known = {day(0): kept(of, 10), day(1): kept(of, 9), day(2): KeptLabel(12, "older", True), day(9): kept(of, 99)}
    assert to_measure(of, current, known, 9) == [day(4), day(3), day(2), day(1)]
    assert to_measure(of, current, known, 2) == [day(4), day(3)]


def test_of_a_span_that_changes_those_are_measured_again_that_left_nothing_to_merge() -> None:
    of = measured()
    current = {day(number): number for number in range(10)}  # 1 January 2013 is a Tuesday
    known = {day(number): kept(of, number, has_states=number > 3) for number in range(10)}
    known[day(1)] = kept(of, 99)  # made again since
    assert to_measure(of, current, known, 9) == [day(1), day(3), day(2), day(0)]
    assert spans_of(of, [day(1)]) == {day(-1)}
    known[day(1)] = kept(of, 1, has_states=False)
    assert to_measure(of, current, known, 9) == []
