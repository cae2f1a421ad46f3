"""Batches that are made again when START moves back from the 5th to the 2nd; the 5th to the 9th are done."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from tests.model.flows import (
    at,
    collect,
    flow,
    history,
    latest,
    past,
    previous,
    publish,
    replace_transform,
    transform,
    until,
)
from tests.unit.planner.pasts import done, failed
from tests.unit.planner.pasts import past as ledger
from waterclock.batches.ledger_snapshot import (
    BEGINNING,
    BatchStatus,
    InputFact,
    LedgerSnapshot,
    Missing,
    TableFacts,
)
from waterclock.batches.records import Input
from waterclock.flow.closings import Closes
from waterclock.flow.declarations import Flow, Read, Table
from waterclock.flow.enums import Mode, OnRestate
from waterclock.planner.dependency_graph import graph_of
from waterclock.planner.earlier_starts import find_earlier_starts, find_shortened_labels
from waterclock.planner.input_binding import bind
from waterclock.planner.plan import Status
from waterclock.planner.planning import plan
from waterclock.timelabel.intervals import IntervalSet

DAILY, APPENDED = collect("daily"), collect("appended", is_partitioned=False)
OLD, NEW = at("2013-01-05"), at("2013-01-02")
DONE = ("2013-01-05", "2013-01-10")
LABELS = ("01-05", "01-06", "01-07", "01-08", "01-09")


def made_again(
    table: Table, *readers: Table, facts: TableFacts | None = None, read: TableFacts | None = None
) -> list[str]:
    """Return the labels of a table to be made again; `facts` are its own, `read` those of its input."""
    of = flow(DAILY, APPENDED, table, *readers)
    snapshot = ledger(t=facts or done(DONE), daily=read or done(DONE), appended=done(DONE))
    recorded = {(table.name, at(f"2013-{day}")): recorded_of(of, table, day) for day in LABELS}
    starts = dict.fromkeys(of.tables, NEW) | {"t": OLD if table.start == OLD else NEW}
    found = find_shortened_labels(of, graph_of(of), starts, snapshot, recorded)
    return [f"{label:%m-%d}" for label in found.get("t", ())]


def recorded_of(of: Flow, table: Table, day: str) -> tuple[Input, ...]:
    """Return the recorded inputs of a batch from when everything started on the 5th."""
    window = table.cadence.window_of(at(f"2013-{day}"))
    ticks = dict.fromkeys(of.tables, window.end)
    return tuple(
        Input(it.read.table, str(it.read), str(it.scope), it.low, it.high, "", 0, "0.0")
        for it in bind(table, window, of, dict.fromkeys(of.tables, OLD), ticks)
    )


@pytest.mark.parametrize(
    ("start", "is_outdated"), [(OLD, False), (NEW, True)], ids=["the same START", "an earlier START"]
)
@pytest.mark.parametrize("has_more", [False, True], ids=["not made yet", "made"])
def test_a_held_batch_that_would_read_more_cannot_be_released(
    start: datetime, *, has_more: bool, is_outdated: bool
) -> None:
    of = flow(replace(DAILY, start=start), transform("t", [history("daily")], start=OLD))
    then = InputFact("daily", OLD, at("2013-01-10"), "1", "1")
    held = replace(failed("E755 it is held", status=BatchStatus.HELD), read=(then,))
    made = done(("2013-01-02", "2013-01-10")) if has_more else done(DONE)
    known = ledger(daily=made, t=done(("2013-01-05", "2013-01-09"), troubles={at("2013-01-09"): held}))
    found = plan(of, known, at("2013-01-10 01:00"))
    (batch,) = (each for each in found.batches if (each.table, each.label) == ("t", at("2013-01-09")))
    assert (batch.status, batch.is_outdated) == (Status.HELD, is_outdated)


@pytest.mark.parametrize(
    ("read", "labels"),
    [
        ("daily", ()),
        (past("daily", "3 days"), LABELS[:2]),
        (past("daily", "1 days"), ()),
        (until("daily", "1 days"), LABELS[:1]),
        (history("daily"), LABELS),
        (previous("daily"), LABELS[:1]),
        (previous("appended"), LABELS),
        ("appended", LABELS),
        (latest("appended"), LABELS),
        (latest("daily"), ()),
    ],
)
def test_those_whose_read_reaches_before_the_old_start(read: Read | str, labels: tuple[str, ...]) -> None:
    assert made_again(transform("t", [read])) == list(labels)


def test_closed_windows_are_made_again_too() -> None:
    table = replace(transform("t", [until("daily", "1 days")]), closes=Closes("TRUE", "TRUE"))
    assert made_again(table) == list(LABELS[:1])


def test_of_several_reads_one_is_enough() -> None:
    assert made_again(transform("t", ["daily", past("daily", "3 days")])) == list(LABELS[:2])


def test_a_recorded_read_that_the_table_no_longer_has_shortens_no_label() -> None:
    table = transform("t", [history("daily")])
    of = flow(DAILY, APPENDED, table)
    recorded = {("t", OLD): recorded_of(of, table, "01-05")}
    of = flow(DAILY, APPENDED, transform("t", [past("daily", "2 days")]))
    assert find_shortened_labels(of, graph_of(of), dict.fromkeys(of.tables, NEW), LedgerSnapshot(), recorded) == {}
    of = flow(DAILY, APPENDED)
    assert find_shortened_labels(of, graph_of(of), dict.fromkeys(of.tables, NEW), LedgerSnapshot(), recorded) == {}


def test_batches_that_cannot_or_should_not_be_made_again_are_left_out() -> None:
    table = transform("t", [history("daily")])
    assert made_again(replace(table, on_restate=OnRestate.REPORT)) == []
    lacks = {at("2013-01-06"): (Missing("daily", at("2013-01-05"), at("2013-01-06")),)}
    assert made_again(table, facts=done(DONE, partial=lacks)) == ["01-05", "01-07", "01-08", "01-09"]
    dropped = done(DONE, dropped_before=at("2013-01-03"))
    assert made_again(table, read=dropped) == []
    dropped = done(DONE, dropped_before=at("2013-01-04"))
    assert made_again(transform("t", [past("daily", "3 days")]), read=dropped) == ["01-06"]


def test_each_state_is_made_again_but_sent_alone_where_it_is_the_newest() -> None:
    assert made_again(replace_transform("t", [history("daily")])) == list(LABELS)
    assert made_again(publish("t", APPENDED, mode=Mode.REPLACE)) == ["01-09"]
    assert made_again(publish("t", APPENDED)) == []


def test_a_table_starts_earlier_if_its_new_start_is_before_all_its_batches() -> None:
    facts = {
        "same": done(("2013-01-02", "2013-01-10")),
        "moved": done(DONE),
        "gap": done(("2013-01-02", "2013-01-03"), DONE),
        "new": TableFacts(),
        "taken": TableFacts(covered=IntervalSet.from_intervals([(BEGINNING, at("2013-01-06"))])),
    }
    found = find_earlier_starts(dict.fromkeys(facts, NEW), LedgerSnapshot(facts))
    assert found == {"moved": (NEW, OLD), "taken": (NEW, at("2013-01-06"))}
