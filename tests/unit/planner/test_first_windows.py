from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from tests.model.flows import (
    at,
    cadence,
    collect,
    flow,
    history,
    latest,
    merge_transform,
    past,
    previous,
    publish,
    replace_transform,
    snapshot,
    transform,
)
from tests.unit.planner.pasts import done, read_then, states
from tests.unit.planner.pasts import past as ledger_of
from waterclock.batches.ledger_snapshot import LedgerSnapshot, TableFacts
from waterclock.flow.declarations import Column, Columns, Flow, Read, Table
from waterclock.flow.enums import Batching
from waterclock.planner.first_windows import starts, starts_to_write
from waterclock.planner.plan import Status
from waterclock.planner.planning import plan

NOW = at("2013-06-15 10:30")
A = collect("a", start=at("2013-01-03"))
HOURLY = collect("h", "HOUR", start=at("2013-01-03 05:00"))


def start_of(table: Table, *others: Table, snapshot: LedgerSnapshot | None = None) -> datetime:
    return starts(_flow(*others, table), snapshot or LedgerSnapshot(), NOW)[table.name]


def _flow(*tables: Table) -> Flow:
    return flow(*{table.name: table for table in tables}.values())


def test_a_declared_start_is_the_window_that_holds_it() -> None:
    assert start_of(collect("c", start=at("2013-01-03 07:00"))) == at("2013-01-03")


def test_a_collect_without_start_begins_with_the_newest_window_that_is_due() -> None:
    arrived = collect("c", batching=Batching.ARRIVAL_TIME, start=None)
    assert start_of(arrived) == at("2013-06-14")
    assert start_of(replace(arrived, cadence=cadence(delay=11 * 60))) == at("2013-06-13")
    assert start_of(snapshot("s", start=None)) == at("2013-06-14")


def test_a_start_that_was_not_recorded_is_not_after_the_first_done_batch() -> None:
    arrived = collect("c", batching=Batching.ARRIVAL_TIME, start=None)
    known = ledger_of(c=done(("2013-05-01", "2013-05-03"), ("2013-06-01", "2013-06-02")))
    assert start_of(arrived, snapshot=known) == at("2013-05-01")


def test_only_starts_in_neither_the_flow_nor_the_ledger_are_recorded() -> None:
    arrived = [collect(name, batching=Batching.ARRIVAL_TIME, start=None) for name in ("c", "d")]
    known = ledger_of(c=TableFacts(start=at("2013-05-01")))
    tables = flow(A, *arrived, transform("t", ["d"]))
    assert starts_to_write(tables, known, NOW) == {"d": at("2013-06-14")}


def test_a_start_written_down_is_kept() -> None:
    arrived = collect("c", batching=Batching.ARRIVAL_TIME, start=None)
    assert start_of(arrived, snapshot=ledger_of(c=TableFacts(start=at("2013-05-01")))) == at("2013-05-01")


@pytest.mark.parametrize(
    ("read", "start"),
    [
        (Read("a"), "2013-01-03"),
        (past("a", "7 DAYS"), "2013-01-03"),
        (history("a"), "2013-01-03"),
        (previous("a"), "2013-01-03"),
        (Read("h"), "2013-01-04"),  # the first day of which every hour exists
        (history("h"), "2013-01-03"),
        (past("h", "2 HOURS"), "2013-01-03"),
        (past("h", "20 HOURS"), "2013-01-04"),
        (previous("h"), "2013-01-04"),  # reads the existing part of the day before
    ],
)
def test_a_transform_begins_where_all_it_reads_exists(read: Read, start: str) -> None:
    assert start_of(transform("t", [read]), A, HOURLY) == at(start)


def test_the_latest_of_several_inputs_decides() -> None:
    assert start_of(transform("t", ["a", "b"]), A, collect("b", start=at("2013-02-01"))) == at("2013-02-01")


def test_a_state_exists_once_its_first_window_has_ended() -> None:
    daily = replace_transform("r", ["a"])
    assert start_of(transform("t", ["r"], "HOUR"), A, daily) == at("2013-01-03 23:00")


def test_previous_of_another_table_does_not_move_start_on_however_many_hops() -> None:
    daily = replace_transform("r", ["a"])
    assert start_of(transform("t", [previous("r")], "HOUR"), A, daily) == at("2013-01-03")
    hops = [transform("t1", [previous("a")]), transform("t2", [previous("t1")]), transform("t3", [previous("t2")])]
    assert start_of(hops[2], A, *hops[:2]) == at("2013-01-03")


def test_snapshots_and_latest_do_not_bound_where_something_else_does() -> None:
    late = snapshot("s", start=at("2013-05-01"))
    assert start_of(transform("t", ["a", "s", latest("s")]), A, late) == at("2013-01-03")


def test_a_transform_of_snapshots_alone_begins_with_them() -> None:
    late = snapshot("s", start=at("2013-05-01"))
    assert start_of(replace_transform("t", ["s"]), late) == at("2013-05-01")
    assert start_of(replace_transform("t", [latest("s")]), late) == at("2013-05-01")


def test_previous_of_itself_does_not_bound() -> None:
    assert start_of(merge_transform("t", ["a", previous("t")]), A) == at("2013-01-03")


def test_a_circle_begins_where_its_inputs_do() -> None:
    first = replace_transform("x", ["a", previous("y")])
    second = replace_transform("y", ["x"])
    found = starts(flow(A, first, second), LedgerSnapshot(), NOW)
    assert (found["x"], found["y"]) == (at("2013-01-03"), at("2013-01-03"))


def test_a_declared_start_of_a_transform_is_never_before_its_inputs() -> None:
    assert start_of(transform("t", ["a"], start=at("2012-01-01")), A) == at("2013-01-03")
    assert start_of(transform("t", ["a"], start=at("2013-04-01")), A) == at("2013-04-01")


def test_a_publish_begins_with_its_table() -> None:
    assert start_of(publish("p", A), A) == at("2013-01-03")


def test_zones_are_kept() -> None:
    berlin = transform("t", ["h"], zone="Europe/Berlin")
    assert start_of(berlin, HOURLY) == at("2013-01-03 23:00")


def test_previous_that_reads_nothing_waits_for_columns_alone() -> None:
    reader = transform("t", [previous("a")])
    first, now = at("2013-01-03"), at("2013-01-05")
    (open_one, *_) = [batch for batch in plan(_flow(A, reader), LedgerSnapshot(), now).batches if batch.table == "t"]
    assert (open_one.label, open_one.status) == (first, Status.WAITING)
    assert open_one.reason == "waits for a@20130103000000, PREVIOUS(a) waits for a first batch"

    declared = replace(A, columns=Columns((Column("id", A.place, "BIGINT"),), is_open=False))
    for tables, ledger in (
        (_flow(declared, reader), LedgerSnapshot()),
        (_flow(A, reader), ledger_of(a=done(("2013-01-04", "2013-01-05")))),
    ):
        found = {batch.label: batch.status for batch in plan(tables, ledger, now).batches if batch.table == "t"}
        assert found == {first: Status.READY, at("2013-01-04"): Status.WAITING}


@pytest.mark.parametrize("is_requested", [False, True])
def test_no_table_waits_for_a_label_before_start_which_is_not_made_again(is_requested: bool) -> None:
    raw = replace(transform("raw", ["a"]), start=at("2013-01-05"))
    above, week = transform("above", [history("raw")]), transform("week", [past("above", "3 days")])
    tables = flow(A, raw, above, week)
    first = at("2013-01-03")
    behind = (
        {"requested": {first: "recompute"}, "suspects": {first: ()}}
        if is_requested
        else {"suspects": {first: (read_then("a", "2013-01-03", "2013-01-04", is_changed=True),)}}
    )
    read = {
        at(f"2013-01-0{day}"): (read_then("raw", "2013-01-03", f"2013-01-0{day + 1}", is_changed=False),)
        for day in range(3, 8)
    }
    ledger = ledger_of(
        a=done(("2013-01-03", "2013-01-09")),
        raw=done(("2013-01-03", "2013-01-09"), **behind),
        above=done(("2013-01-03", "2013-01-09"), suspects=read),
        week=done(("2013-01-03", "2013-01-08")),
    )
    found = plan(tables, ledger, at("2013-01-09"))
    assert states(found, "week") == {"01-08": "ready"}
    assert (states(found, "raw"), found.following) == ({}, {})
    earlier = flow(A, replace(raw, start=at("2013-01-03")), above, week)
    found = plan(earlier, ledger, at("2013-01-09"))
    assert (states(found, "raw"), states(found, "week")) == ({"01-03": "ready"}, {"01-08": "waiting"})
