"""If the newest state of a REPLACE transform is blocked, the reason names the older state that can be made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.flows import at, collect, flow, history, transform
from tests.unit.planner.pasts import done, failed, past, reason, running
from waterclock.batches.ledger_snapshot import TableFacts
from waterclock.flow.enums import Mode
from waterclock.planner.planning import Planner

NOW = at("2013-01-05 12:00")
FLOW = flow(collect("a"), transform("state", [history("a")], mode=Mode.REPLACE, is_partitioned=False))
SAID = "; `waterclock backfill state 20130103000000` makes an older state until then"


def told(state: TableFacts, *, fails: str = "2013-01-04") -> str:
    a = done(("2013-01-01", fails), troubles={at(fails): failed()})
    return reason(Planner(FLOW).plan(past(a=a, state=state), NOW), "state", "2013-01-04")


def test_the_newest_older_state_that_can_be_made_is_named() -> None:
    assert told(done(("2013-01-01", "2013-01-02"))) == f"blocked by a@20130104000000, failed: boom{SAID}"
    assert told(TableFacts()).endswith(SAID)


@pytest.mark.parametrize(
    "state",
    [
        done(("2013-01-01", "2013-01-04")),
        done(("2013-01-03", "2013-01-04")),
    ],
)
def test_no_older_state_is_suggested_if_the_previous_one_exists(state: TableFacts) -> None:
    assert told(state).endswith("failed: boom")


def test_failed_and_running_older_states_are_not_suggested() -> None:
    here = done(("2013-01-01", "2013-01-02"))
    older = SAID.replace("20130103", "20130102")
    assert told(replace(here, troubles={at("2013-01-03"): failed()})).endswith(older)
    assert told(replace(here, open_claims=(running("2013-01-03"),))).endswith(older)


def test_no_older_state_is_suggested_if_none_can_be_made() -> None:
    assert told(TableFacts(), fails="2013-01-01").endswith("failed: boom")
