"""Windows that choose between queries read, wait for and follow only the inputs of their own query."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest

from tests.model.flows import (
    at,
    cadence,
    choosing,
    collect,
    flow,
    history,
    past,
    publish,
    replace_transform,
    snapshot,
    transform,
)
from tests.unit.planner.pasts import done, offered, reason, states
from tests.unit.planner.pasts import past as ledger_of
from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Mode, TableType
from waterclock.planner.first_windows import starts
from waterclock.planner.planning import Planner, plan
from waterclock.timelabel.window import Window

EVE = at("2013-03-25")
NOW = at("2013-01-07 10:30")
OLD = collect("old", start=at("2013-01-01"))
NEW = collect("new", start=at("2013-01-04"))
BEFORE = "WINDOW_START() < '2013-01-04'"
BOTH = choosing(transform("t", []), (BEFORE, ["old"]), other=["new"])
ODD = choosing(transform("t", []), ("day(WINDOW_START()) % 2 = 1", ["old"]), other=["new"])


def start_of(table: Table, *others: Table) -> datetime:
    return starts(flow(*others, table), LedgerSnapshot(), NOW)["t"]


def test_a_table_with_choices_starts_once_the_query_of_each_window_has_its_inputs() -> None:
    assert start_of(BOTH, OLD, NEW) == at("2013-01-01")
    assert start_of(replace(BOTH, start=at("2013-01-03")), OLD, NEW) == at("2013-01-03")
    assert start_of(replace(BOTH, start=at("2012-01-03")), OLD, NEW) == at("2013-01-01")
    assert start_of(BOTH, OLD, replace(NEW, start=at("2013-01-06"))) == at("2013-01-06")
    turned = choosing(transform("t", []), (BEFORE, ["new"]), other=["old"])
    assert start_of(turned, OLD, NEW) == at("2013-01-04")
    assert start_of(ODD, OLD, NEW) == at("2013-01-03")


def test_a_query_that_reads_nothing_bounds_nothing() -> None:
    seeded = choosing(transform("t", []), (BEFORE, []), other=["new"])
    assert start_of(seeded, NEW) == at("2013-01-04")
    assert start_of(replace(seeded, start=at("2012-12-30")), NEW) == at("2012-12-30")
    looked = choosing(transform("t", []), (BEFORE, ["s"]), other=["new"])
    assert start_of(looked, snapshot("s"), NEW) == at("2013-01-04")


@pytest.mark.parametrize("seed", range(40))
def test_starts_equal_those_found_by_checking_every_window(seed: int) -> None:
    random = Random(seed)
    zone = random.choice(("UTC", "Europe/Berlin", "Asia/Kolkata"))
    sources = [
        collect(f"c{each}", random.choice(("HOUR", "DAY")), start=EVE + random.random() * timedelta(days=10))
        for each in range(3)
    ]
    sources = [replace(each, cadence=replace(each.cadence, zone=zone)) for each in sources]

    def said() -> str:
        day = at("2013-03-25") + timedelta(hours=random.randrange(300))
        edge, sign = random.choice(("START", "END")), random.choice(("<", "<=", ">", ">=", "=", "<>"))
        by_instant = f"WINDOW_{edge}() {sign} '{day:%Y-%m-%d %H:%M}Z'"
        by_date = f"date(WINDOW_{edge}()) {sign} '{day:%Y-%m-%d}'"
        return random.choice((by_instant, by_instant, by_date, by_date, "day(WINDOW_START()) % 2 = 0"))

    bare = replace(transform("t", [], "DAY"), cadence=cadence("DAY", zone=zone))
    if random.random() < 0.3:
        bare = replace(bare, start=at("2013-03-29"))
    table = choosing(
        bare,
        (f"{said()} AND {said()}", [history("c0")]),
        (f"{said()} OR {said()}", [history("c1"), history("c2")]),
        other=[history("c2")],
    )
    found = starts(flow(*sources, table), LedgerSnapshot(), NOW)
    by_name = {each.name: each for each in sources}
    windows = [*table.cadence.windows(at("2013-03-20"), at("2013-04-20"))]

    def exists(window: Window, names: set[str]) -> bool:
        return all(by_name[name].cadence.floor(window.end) > found[name] for name in names)

    declared = table.start and table.cadence.floor(table.start)
    queries = [{read.table for read in choice.reads} for choice in table.choices]
    first = declared or next(w.start for w in windows if any(exists(w, names) for names in queries))
    wrong = [w for w in windows if not exists(w, {read.table for read in table.reads_for_window(w)})]
    assert found["t"] == max([first, *(w.end for w in wrong if w.end > first)])


def test_a_label_waits_only_for_the_inputs_of_its_own_query() -> None:
    ledger = ledger_of(old=done(("2013-01-01", "2013-01-04")))
    found = plan(flow(OLD, NEW, BOTH), ledger, NOW)
    assert states(found, "t") == dict.fromkeys(("01-01", "01-02", "01-03"), "ready") | dict.fromkeys(
        ("01-04", "01-05", "01-06"), "waiting"
    )
    assert reason(found, "t", "2013-01-04") == "waits for new@20130104000000, ready"
    chosen = {batch.label.day: batch.choice for batch in found.batches if batch.table == "t"}
    assert (chosen[3], chosen[4]) == (f"WHEN {BEFORE}", "ELSE")
    reads = {
        batch.label.day: [read.read.table for read in batch.reads] for batch in found.batches if batch.table == "t"
    }
    assert (reads[3], reads[4]) == (["old"], ["new"])


def test_labels_of_different_queries_share_no_claim() -> None:
    ledger = ledger_of(old=done(("2013-01-01", "2013-01-07")), new=done(("2013-01-04", "2013-01-07")))
    both, odd = (plan(flow(OLD, NEW, table), ledger, NOW) for table in (BOTH, ODD))
    assert offered(both, "t") == [["01-01", "01-02", "01-03"], ["01-04", "01-05", "01-06"]]
    assert offered(odd, "t") == [["01-03", "01-05"], ["01-04", "01-06"]]


def test_a_state_is_needed_for_labels_whose_query_reads_it_alone() -> None:
    state = replace_transform("state", ["old"])
    table = choosing(transform("t", []), (BEFORE, ["state"]), other=["new"])
    ledger = ledger_of(old=done(("2013-01-01", "2013-01-07")))
    found = plan(flow(OLD, NEW, state, table), ledger, NOW)
    assert states(found, "state") == dict.fromkeys(("01-01", "01-02", "01-03", "01-06"), "ready")


def test_the_newest_state_does_not_wait_for_inputs_of_another_query() -> None:
    late = replace(OLD, cadence=cadence(delay=3 * 1440))
    table = choosing(replace_transform("t", []), (BEFORE, ["old"]), other=["new"])
    ledger = ledger_of(old=done(("2013-01-01", "2013-01-04")), new=done(("2013-01-04", "2013-01-07")))
    assert states(plan(flow(late, NEW, table), ledger, NOW), "t") == {"01-06": "ready"}


def test_a_state_that_is_done_is_published_although_another_query_has_an_open_input() -> None:
    late = replace(OLD, cadence=cadence(delay=30 * 1440))
    state = replace(transform("t", []), mode=Mode.MERGE, type=TableType.REGULAR)
    table = choosing(state, ("day(WINDOW_START()) = 6", ["old"]), other=["new"])
    tables = flow(late, NEW, table, publish("out", table, mode=Mode.REPLACE))
    ledger = ledger_of(new=done(("2013-01-04", "2013-01-07")))
    for end, newest in (("2013-01-04", {}), ("2013-01-05", {"01-04": "ready"}), ("2013-01-06", {"01-05": "ready"})):
        made = LedgerSnapshot({**ledger.tables, "t": done(("2013-01-04", end))})
        assert states(plan(tables, made, NOW), "out") == newest
    gap = LedgerSnapshot({**ledger.tables, "t": done(("2013-01-05", "2013-01-06"))})
    assert states(plan(tables, gap, NOW), "out") == {}


def test_a_label_in_order_waits_for_those_before_it_whichever_query_makes_them() -> None:
    table = replace(BOTH, is_sequential=True)
    ledger = ledger_of(new=done(("2013-01-04", "2013-01-07")))
    found = plan(flow(OLD, NEW, table), ledger, NOW)
    assert reason(found, "t", "2013-01-04") == "waits for t@20130101000000, waiting"
    assert offered(found, "t") == []


def test_inputs_of_any_query_are_kept() -> None:
    table = choosing(transform("t", []), (BEFORE, [past("old", "2 days")]), other=["new"])
    tables: Flow = flow(OLD, NEW, table)
    ledger = ledger_of(old=done(("2013-01-01", "2013-01-07")), new=done(("2013-01-04", "2013-01-07")))
    done_to = {**ledger.tables, "t": done(("2013-01-01", "2013-01-03"))}
    assert Planner(tables).oldest_needed(LedgerSnapshot(done_to), NOW) == {
        "old": at("2013-01-02"), "new": at("2013-01-03"),
    }  # fmt: skip
