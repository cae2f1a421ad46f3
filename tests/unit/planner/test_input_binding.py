"""Every cell of the table in docs/explain/consistency.md, as instants."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.model.flows import (
    at,
    collect,
    days,
    flow,
    history,
    latest,
    merge_transform,
    past,
    previous,
    replace_transform,
    snapshot,
    transform,
    until,
)
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Read, Table
from waterclock.flow.enums import Batching, Mode, ReadKind
from waterclock.planner.input_binding import bind
from waterclock.planner.plan import ReadScope
from waterclock.timelabel.window import Window

HOURLY = collect("hourly", "HOUR")
DAILY = collect("daily")
APPENDED = collect("appended", is_partitioned=False)
MERGED = collect("merged", mode=Mode.MERGE, is_partitioned=False)
REPLACED = replace_transform("replaced", ["daily"])
SNAP = snapshot("snap")
STARTS = dict.fromkeys(("hourly", "daily", "appended", "merged", "replaced", "snap", "t"), at("2013-01-03"))
DAY = Window(at("2013-01-05"), at("2013-01-06"))
NINE = Window(at("2013-01-05 09:00"), at("2013-01-05 10:00"))


def bound(read: Read | str, window: Window = DAY, reader: Table | None = None) -> tuple[ReadScope, datetime, datetime]:
    table = reader or transform("t", [read], "DAY" if window == DAY else "HOUR")
    tables = flow(HOURLY, DAILY, APPENDED, MERGED, REPLACED, SNAP, table)
    ticks = {"replaced": at("2013-02-01"), "daily": at("2013-02-01"), "merged": at("2013-02-01")}
    (found,) = bind(table, window, tables, STARTS, ticks)
    return found.scope, found.low, found.high


def slices(low: str, high: str) -> tuple[ReadScope, datetime, datetime]:
    return ReadScope.SLICES, at(low), at(high)


def state(low: str, high: str) -> tuple[ReadScope, datetime, datetime]:
    return ReadScope.STATE, at(low), at(high)


def test_a_plain_read_of_a_partitioned_table_is_its_slices_in_the_window() -> None:
    assert bound("hourly") == slices("2013-01-05", "2013-01-06")


def test_a_plain_read_of_a_regular_table_is_its_state_at_the_windows_end() -> None:
    assert bound("replaced") == state("2013-01-05", "2013-01-06")
    assert bound("appended") == state("2013-01-03", "2013-01-06")
    assert bound("merged") == state("2013-01-03", "2013-01-06")
    assert bound("snap") == state("2013-01-05", "2013-01-06")


def test_an_hourly_child_of_a_daily_table_reads_yesterday() -> None:
    assert bound("replaced", NINE) == state("2013-01-04", "2013-01-05")
    assert bound("merged", NINE) == state("2013-01-03", "2013-01-05")


def test_the_last_hour_of_a_day_reads_that_day() -> None:
    last = Window(at("2013-01-05 23:00"), at("2013-01-06"))
    assert bound("replaced", last) == state("2013-01-05", "2013-01-06")


def test_past_reads_a_span_that_ends_with_the_window() -> None:
    assert bound(past("hourly", "36 HOURS")) == slices("2013-01-04 12:00", "2013-01-06")


def test_past_is_cut_at_start() -> None:
    assert bound(past("daily", "7 DAYS")) == slices("2013-01-03", "2013-01-06")


def test_past_counts_days_in_the_zone_of_the_reader() -> None:
    berlin = transform("t", [past("hourly", "2 DAYS")], zone="Europe/Berlin")
    after_the_change = Window(at("2013-03-31 22:00"), at("2013-04-01 22:00"))
    assert bound(past("hourly", "2 DAYS"), after_the_change, berlin) == slices("2013-03-30 23:00", "2013-04-01 22:00")


def test_until_reaches_behind_the_window_and_before_it() -> None:
    assert bound(until("hourly", "2 hours")) == slices("2013-01-04 22:00", "2013-01-06 02:00")


def test_until_is_cut_at_start() -> None:
    first = Window(at("2013-01-03"), at("2013-01-04"))
    assert bound(until("hourly", "2 hours"), first) == slices("2013-01-03", "2013-01-04 02:00")


def test_history_of_a_partitioned_table_is_all_slices_before_its_last_boundary() -> None:
    assert bound(history("hourly")) == slices("2013-01-03", "2013-01-06")
    assert bound(history("daily"), NINE) == slices("2013-01-03", "2013-01-05")


def test_history_of_a_regular_table_is_a_plain_read() -> None:
    assert bound(history("replaced")) == bound("replaced")
    assert bound(history("merged")) == bound("merged")


def test_previous_of_a_regular_table_is_its_state_at_the_windows_start() -> None:
    assert bound(previous("replaced")) == state("2013-01-04", "2013-01-05")
    assert bound(previous("appended"), NINE) == state("2013-01-03", "2013-01-05")


def test_previous_of_a_partitioned_table_reads_the_window_before() -> None:
    assert bound(previous("hourly")) == slices("2013-01-04", "2013-01-05")
    berlin = transform("t", [previous("hourly")], zone="Europe/Berlin")
    after_the_change = Window(at("2013-03-31 22:00"), at("2013-04-01 22:00"))
    assert bound(previous("hourly"), after_the_change, berlin) == slices("2013-03-30 23:00", "2013-03-31 22:00")


@pytest.mark.parametrize("mode", list(Mode))
def test_previous_of_itself_is_empty_before_start(mode: Mode) -> None:
    own = replace(merge_transform("t", [previous("t")]), mode=mode)
    first = Window(at("2013-01-03"), at("2013-01-04"))
    assert bound("t", first, own) == state("2013-01-03", "2013-01-03")
    assert bound("t", Window(at("2013-01-04"), at("2013-01-05")), own) == state("2013-01-03", "2013-01-04")


def test_previous_of_itself_is_empty_before_start_where_partitioned() -> None:
    own = transform("t", [previous("t")])
    first = Window(at("2013-01-03"), at("2013-01-04"))
    assert bound("t", first, own) == slices("2013-01-03", "2013-01-03")


@pytest.mark.parametrize("name", ["daily", "replaced", "merged", "appended"])
def test_previous_of_another_table_is_empty_before_its_start(name: str) -> None:
    first = Window(STARTS[name], STARTS[name] + timedelta(days=1))
    _, low, high = bound(previous(name), first)
    assert low == high == STARTS[name]


def test_previous_reads_from_the_start_of_the_table_in_its_first_windows() -> None:
    start = at("2013-01-03 05:00")
    table = transform("t", [previous("hourly")])
    second = Window(at("2013-01-04"), at("2013-01-05"))
    assert bind(table, second, flow(HOURLY, table), {"hourly": start})[0].low == start


@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.TEMPORAL])
@pytest.mark.parametrize("start", ["2013-01-05", "2013-06-01"])
def test_previous_of_a_snapshot_is_empty_up_to_its_start(start: str, mode: Mode) -> None:
    table = transform("t", [previous("s"), Read("s", ReadKind.PLAIN)])
    tables = flow(replace(snapshot("s", start=at(start)), mode=mode), table)
    before, now = bind(table, DAY, tables, {"s": at(start)})
    assert before.low == before.high  # a later snapshot is no earlier state
    assert (now.low, now.high) == (at("2013-01-05"), at("2013-01-06"))  # the first one stands for all days before


def test_latest_reads_at_the_tick_it_was_given() -> None:
    assert bound(latest("replaced")) == state("2013-01-31", "2013-02-01")
    assert bound(latest("merged")) == state("2013-01-03", "2013-02-01")
    assert bound(latest("daily")) == slices("2013-01-31", "2013-02-01")


def test_latest_without_a_tick_is_refused() -> None:
    table = transform("t", [latest("hourly")])
    with pytest.raises(WaterclockError, match="has no tick yet") as caught:
        bind(table, DAY, flow(HOURLY, table), STARTS)
    assert caught.value.code == "E501"
    assert caught.value.where == "t@20130105000000"


def test_retain_limits_the_slices_read_of_an_append_table() -> None:
    kept = collect("kept", is_partitioned=False, retain=days(2))
    table = transform("t", ["kept", history("kept_slices")])
    tables = flow(kept, collect("kept_slices", retain=days(2)), table)
    starts = {"kept": at("2013-01-01"), "kept_slices": at("2013-01-01"), "t": at("2013-01-01")}
    found = bind(table, DAY, tables, starts)
    assert [(read.low, read.high) for read in found] == [(at("2013-01-04"), at("2013-01-06"))] * 2


def test_retain_counts_days_in_the_zone_of_the_table_read() -> None:
    kept = collect("kept", zone="Europe/Berlin", retain=days(2))
    table = transform("t", [history("kept")], zone="Europe/Berlin")
    after_the_change = Window(at("2013-03-31 22:00"), at("2013-04-01 22:00"))
    (found,) = bind(table, after_the_change, flow(kept, table), {"kept": at("2013-01-01"), "t": at("2013-01-01")})
    assert (found.low, found.high) == (at("2013-03-30 23:00"), at("2013-04-01 22:00"))


def test_arrival_time_and_data_time_tables_are_read_identically() -> None:
    arrived = replace(HOURLY, source=replace(HOURLY.source, batching=Batching.ARRIVAL_TIME))  # type: ignore[type-var]  # it is a collect
    table = transform("t", ["hourly"])
    assert bind(table, DAY, flow(arrived, table), STARTS) == bind(table, DAY, flow(HOURLY, table), STARTS)


def test_a_key_past_reads_its_own_earlier_labels_up_to_but_not_including_the_window() -> None:
    own = transform("t", ["daily", Read("t", ReadKind.PREVIOUS, days(3))])
    tables = flow(DAILY, own)
    first, later = (
        bind(own, Window(at(start), at(end)), tables, STARTS)[1]
        for start, end in (("2013-01-03", "2013-01-04"), ("2013-01-09", "2013-01-10"))
    )
    assert (first.low, first.high) == (at("2013-01-03"), at("2013-01-03"))
    assert (later.scope, later.low, later.high) == slices("2013-01-07", "2013-01-09")
    assert own.is_in_label_order
