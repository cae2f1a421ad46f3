"""The labels that a branch makes: of a REPLACE table only the states that are needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

import pytest

from tests.ledgers import Desk, day, desk, flow, table
from waterclock.engine.branching.branch_state import BranchState
from waterclock.engine.branching.table_changes import TableChanges
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Kind, Mode, OnRestate
from waterclock.operations.branches import BranchWork, find_branch_work, for_branch

TICK = day(3)
ROWS = table("raw.a", partitioned=True)
STATE = table("marts.state", mode=Mode.REPLACE, reads=["raw.a"])
DAILY = table("marts.daily", partitioned=True, reads=["marts.state"])
SENT = table("out.state", mode=Mode.REPLACE, reads=["marts.state"], kind=Kind.PUBLISH)
TABLES = (ROWS, STATE, DAILY, SENT)


@dataclass(frozen=True)
class FlowOnly:
    """A project with only a flow."""

    flow: Flow


@pytest.fixture
def production() -> Desk:
    """Return a ledger with three done days of raw.a."""
    found = desk()
    found.apply(*TABLES)
    found.done("raw.a", 0, 1, 2)
    return found


def make_states(at_desk: Desk, *days: int) -> None:
    for number in days:
        at_desk.done("marts.state", number, reads={number: [at_desk.read("raw.a", 0, number + 1)]})


def make_days(at_desk: Desk, *days: int) -> None:
    for number in days:
        at_desk.done("marts.daily", number, reads={number: [at_desk.read("marts.state", number, number + 1)]})


def planned(at_desk: Desk, changed: Iterable[str], affected: Iterable[str] = ()) -> dict[str, list[int]]:
    """Return the days that a branch makes of each table."""
    windows = work(at_desk, changed, affected).windows
    return {name: [(window.start - day(0)).days for window in found] for name, found in windows.items()}


def work(
    at_desk: Desk,
    changed: Iterable[str] = (),
    affected: Iterable[str] = (),
    *,
    new: Iterable[str] = (),
    delivered: Iterable[str] = (),
    borrowed: Iterable[str] = (),
    tick: datetime = TICK,
    tables: Iterable[Table] = TABLES,
) -> BranchWork:
    names = ("raw.a", *changed, *affected, *new, *delivered, *borrowed)
    declared = [replace(it, fingerprint="other") if it.name in changed else it for it in tables if it.name in names]
    changes = TableChanges(
        changed=tuple(changed),
        affected=tuple(affected),
        new=tuple(new),
        delivered=tuple(delivered),
        borrowed=tuple(borrowed),
    )
    state = BranchState("try", "prod", tick, tick, day(9))
    return find_branch_work(flow(*declared), at_desk.ledger, state, changes, {})


def test_of_a_changed_state_only_the_newest_is_made_if_no_batch_reads_the_others(production: Desk) -> None:
    make_states(production, 2)
    assert planned(production, ["marts.state"]) == {"marts.state": [2]}


def test_states_that_production_has_made_are_requested_again(production: Desk) -> None:
    make_states(production, 0, 2)
    assert planned(production, ["marts.state"]) == {"marts.state": [0, 2]}


def test_states_that_are_read_again_are_made(production: Desk) -> None:
    make_states(production, 0, 1, 2)
    make_days(production, 0, 1, 2)
    found = planned(production, ["marts.state"], ["marts.daily"])
    assert found == {"marts.state": [0, 1, 2], "marts.daily": [0, 1, 2]}


def test_of_an_affected_state_the_older_ones_are_left_out(production: Desk) -> None:
    make_states(production, 0, 1, 2)
    assert planned(production, ["raw.a"], ["marts.state"])["marts.state"] == [2]


def test_states_that_the_branch_has_made_are_listed_as_other_labels_are(production: Desk) -> None:
    make_states(production, 1)
    production.done("marts.state", 2, code="other", reads={2: [production.read("raw.a", 0, 3)]})
    assert planned(production, ["marts.state"]) == {"marts.state": [1, 2]}


def test_the_newest_state_of_a_base_that_is_behind_the_tick_is_requested(production: Desk) -> None:
    later = day(5)  # production has not made the days 3 and 4, and the branch never sees them
    assert work(production, new=["marts.state"], tick=later).wanted == {"marts.state": day(2)}
    make_states(production, 1, 2)
    found = work(production, ["raw.a"], ["marts.state"], tick=later)
    assert (found.wanted, found.followed) == ({}, {"marts.state": day(2)})
    assert [window.start for window in found.windows["marts.state"]] == [day(2)]
    assert work(production, ["marts.state"], tick=later).older == {"marts.state": (day(1), day(2))}


def test_of_a_publish_of_a_state_the_newest_is_delivered(production: Desk) -> None:
    make_states(production, 0, 1, 2)
    found = work(production, ["marts.state"], delivered=["out.state"])
    assert [window.start for window in found.windows["out.state"]] == [day(2)]
    assert found.wanted == {"out.state": day(2)}


def test_borrowed_tables_that_the_base_was_to_make_again_are_named(production: Desk) -> None:
    make_states(production, 0, 1, 2)
    make_days(production, 0, 1, 2)
    assert work(production, ["marts.daily"], borrowed=["raw.a", "marts.state"]).unsettled == ()
    production.ledger.decisions.request_restate("raw.a", [day(1)], "recompute", who="ann")
    production.done("raw.a", 1, digest="1:5:5")
    assert work(production, ["marts.daily"], borrowed=["raw.a", "marts.state"]).unsettled == ("marts.state",)
    assert work(production, borrowed=["raw.a", "marts.state"]).unsettled == (), "the branch makes nothing"


def test_a_borrowed_table_with_on_restate_report_counts_as_settled_as_in_the_base(production: Desk) -> None:
    make_states(production, 0, 1, 2)
    make_days(production, 0, 1, 2)
    production.ledger.decisions.request_restate("raw.a", [day(1)], "recompute", who="ann")
    production.done("raw.a", 1, digest="1:5:5")
    reporting = [replace(it, on_restate=OnRestate.REPORT) for it in TABLES]
    found = work(production, ["marts.daily"], borrowed=["raw.a", "marts.state"], tables=reporting)
    assert found.unsettled == ()
    project = cast("Any", FlowOnly(flow(*reporting)))
    made = for_branch(project, ["marts.daily"]).flow.tables
    assert (made["marts.state"].on_restate, made["marts.daily"].on_restate) == (OnRestate.REPORT, OnRestate.RECOMPUTE)


def test_labels_that_failed_in_production_are_retried_and_their_readers_extend_as_far(production: Desk) -> None:
    make_states(production, 0)
    make_days(production, 0)
    for number in (1, 2):
        failed = production.claim("marts.state", number, reads={number: [production.read("raw.a", 0, number + 1)]})
        production.ledger.claims.record_failed(failed, error="boom", is_transient=False)
    found = work(production, ["marts.state"], ["marts.daily"])
    assert found.stopped == {"marts.state": (day(1), day(2))}
    assert [window.start for window in found.windows["marts.daily"]] == [day(0), day(1), day(2)]
    assert found.wanted == {"marts.state": day(2)}
