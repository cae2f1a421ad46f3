from __future__ import annotations

from datetime import datetime

import pytest

from tests.model.flows import (
    at,
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
from tests.unit.planner.pasts import past as ledger_of
from waterclock.flow import Batching, Flow, Read, Table
from waterclock.ledger.facts import LedgerSnapshot, TableFacts
from waterclock.planner import starts

NOW = at("2013-06-15 10:30")
A = collect("a", start=at("2013-01-03"))
HOURLY = collect("h", "HOUR", start=at("2013-01-03 05:00"))


def start_of(table: Table, *others: Table, snapshot: LedgerSnapshot | None = None) -> datetime:
    return starts(_flow(*others, table), snapshot or LedgerSnapshot(), NOW)[table.name]


def _flow(*tables: Table) -> Flow:
    return flow(*{table.name: table for table in tables}.values())


def test_a_declared_start_is_the_window_that_holds_it() -> None:
    assert start_of(collect("c", start=at("2013-01-03 07:00"))) == at("2013-01-03")


def test_a_collect_without_start_begins_at_the_window_of_now() -> None:
    arrived = collect("c", batching=Batching.ARRIVAL_TIME, start=None)
    assert start_of(arrived) == at("2013-06-15")


def test_a_start_written_down_is_kept() -> None:
    arrived = collect("c", batching=Batching.ARRIVAL_TIME, start=None)
    assert start_of(arrived, snapshot=ledger_of(c=TableFacts(start=at("2013-05-01")))) == at("2013-05-01")


@pytest.mark.parametrize(
    ("read", "start"),
    [
        (Read("a"), "2013-01-03"),
        (past("a", "7 DAYS"), "2013-01-03"),
        (history("a"), "2013-01-03"),
        (previous("a"), "2013-01-04"),
        (Read("h"), "2013-01-04"),  # the first day of which every hour exists
        (history("h"), "2013-01-03"),
        (past("h", "2 HOURS"), "2013-01-03"),
        (past("h", "20 HOURS"), "2013-01-04"),
    ],
)
def test_a_transform_begins_where_all_it_reads_exists(read: Read, start: str) -> None:
    assert start_of(transform("t", [read]), A, HOURLY) == at(start)


def test_the_latest_of_several_inputs_decides() -> None:
    assert start_of(transform("t", ["a", "b"]), A, collect("b", start=at("2013-02-01"))) == at("2013-02-01")


def test_a_state_exists_once_its_first_window_has_ended() -> None:
    daily = replace_transform("r", ["a"])
    assert start_of(transform("t", ["r"], "HOUR"), A, daily) == at("2013-01-03 23:00")
    assert start_of(transform("t", [previous("r")], "HOUR"), A, daily) == at("2013-01-04")
    assert start_of(transform("t", [previous("r")]), A, daily) == at("2013-01-04")


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
