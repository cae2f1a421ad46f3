"""The labels that a tick reads or computes, and those that keep their rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from waterclock.batches.ledger_snapshot import BatchStatus, FailedBatch, Pause, TableFacts
from waterclock.engine.continuous.open_labels import find_open_labels, find_windows_to_compute, newest_state
from waterclock.flow.declarations import Place, Table
from waterclock.flow.enums import Kind, Mode, TableType
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.period import parse_period

START = datetime(2020, 1, 1, tzinfo=UTC)
TABLE = Table(
    name="web.clicks", kind=Kind.COLLECT, type=TableType.PARTITIONED, mode=Mode.APPEND, place=Place("a.dpl", 1, 1),
    cadence=Cadence(parse_period("5 MINUTES")),
)  # fmt: skip


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def facts(*done: float, held: float | None = None, is_paused: bool = False) -> TableFacts:
    troubles = {} if held is None else {at(held): FailedBatch(BatchStatus.HELD, 1, 1, "", is_transient=False)}
    covered = IntervalSet.from_intervals([(at(label), at(label + 5)) for label in done])
    return TableFacts(START, covered, troubles, paused=Pause(START, "ann", "why") if is_paused else None)


def opened(now: float, *known: float, of: TableFacts | None = None, delay: int = 0, **more: Any) -> tuple[Any, Any]:
    table = replace(TABLE, cadence=replace(TABLE.cadence, delay=timedelta(minutes=delay)))
    found = find_open_labels(table, at(more.get("start", 0)), of or facts(), [at(label) for label in known], at(now))
    return [window.start for window in found.made], list(found.kept)


@pytest.mark.parametrize(
    ("now", "known", "made", "kept"),
    [
        (7, (), [5], []),
        (5, (0,), [5], [0]),  # the first window is over and not done: its batch may be reading it
        (12, (0, 5), [10], [0, 5]),
    ],
)
def test_windows_that_are_not_due_are_read(now: float, known: tuple[float, ...], made: Any, kept: Any) -> None:
    assert opened(now, *known) == ([at(label) for label in made], [at(label) for label in kept])


def test_a_delay_leaves_several_windows_open() -> None:
    assert opened(12, delay=1) == ([at(10)], [])
    assert opened(12, delay=4) == ([at(5), at(10)], [])
    assert opened(12, delay=8) == ([at(0), at(5), at(10)], [])
    assert opened(12, delay=8, start=5) == ([at(5), at(10)], [])


def test_done_and_held_labels_leave_and_a_paused_table_keeps_its_rows() -> None:
    assert opened(12, 0, 5, of=facts(0)) == ([at(10)], [at(5)])
    assert opened(12, 0, 5, of=facts(0, held=5)) == ([at(10)], [])
    assert opened(12, 5, 10, of=facts(is_paused=True)) == ([], [at(5), at(10)])


def test_a_transform_computes_the_windows_that_overlap_open_labels_and_those_of_the_tick_before() -> None:
    hourly = replace(TABLE, cadence=Cadence(parse_period("HOUR")))

    def computed(*labels: float, of: TableFacts | None = None, known: tuple[float, ...] = ()) -> list[datetime]:
        inputs = [(TABLE.cadence, [at(label) for label in labels])]
        known_labels = [at(label) for label in known]
        found = find_windows_to_compute(hourly, START, of or facts(), known_labels, at(125), inputs)
        return [window.start for window in found.made]

    assert computed(55, 60) == [at(0), at(60)]
    assert computed(125) == [at(120)]
    assert computed(60, known=(0,)) == [at(0), at(60)]
    assert computed(60, known=(0,), of=facts(held=0)) == [at(60)]
    assert computed(-5) == []  # before START
    assert computed(180) == []  # it has not begun
    assert computed(180, known=(180,)) == [at(180)]  # the clock was set back
    assert computed() == []


def test_the_newest_state_is_that_of_a_done_window() -> None:
    assert newest_state(TABLE.cadence, facts(0, 5), at(12)) == at(10)
    assert newest_state(TABLE.cadence, facts(0, 5), at(7)) == at(5)
    assert newest_state(TABLE.cadence, facts(0, 10), at(12)) == at(5)
    assert newest_state(TABLE.cadence, facts(), at(12)) is None
