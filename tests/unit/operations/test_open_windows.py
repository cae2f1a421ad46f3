"""Texts on open windows made by ticks: the reason the oldest one waits, the number of rows shown, and their time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.model.flows import at, collect, flow
from waterclock.batches.ledger_snapshot import BatchStatus, FailedBatch, OpenClaim, TableFacts
from waterclock.operations.open_windows import OpenWindows, describe_wait, open_window_metrics

TABLE = flow(collect("raw.a", "DAY")).tables["raw.a"]
WINDOW = TABLE.cadence.window_of(at("2013-01-05"))
SHOWN = OpenWindows(
    "raw.a", "UTC", 2, WINDOW.start, at("2013-01-06"), tick=7, rows=1, age=timedelta(seconds=3), waits="ends soon"
)
FAILED = FailedBatch(BatchStatus.HELD, claim=1, attempts=1, error="", is_transient=False)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (TableFacts(), "waits for its batch"),
        (TableFacts(troubles={WINDOW.start: FAILED}), "waits for its batch, which is held"),
        (
            TableFacts(open_claims=(OpenClaim(1, (WINDOW.start,), "one", WINDOW.end),)),
            "waits for its batch, which is running",
        ),
        (TableFacts(open_claims=(OpenClaim(1, (WINDOW.end,), "one", WINDOW.end),)), "waits for its batch"),
    ],
)
def test_a_window_that_is_over_waits_for_its_batch(facts: TableFacts, words: str) -> None:
    assert describe_wait(TABLE, facts, WINDOW, TABLE.cadence.due_at(WINDOW)) == words


def test_a_window_that_is_not_over_waits_for_its_end() -> None:
    before = WINDOW.end - timedelta(minutes=1)
    assert describe_wait(TABLE, TableFacts(), WINDOW, before) == "ends at 2013-01-06 00:00Z"


def test_words_have_the_rows_the_tick_and_its_age() -> None:
    assert SHOWN.words() == (
        "2 windows open from 20130105000000 on; the oldest ends soon; "
        "raw.a_view shows 1 row of them as of 2013-01-06 00:00Z (tick 7, sources read 3 s ago)"
    )
    unknown = replace(SHOWN, shown=None, age=None)
    assert unknown.words().endswith("the oldest ends soon; raw.a_view does not show them yet")


def test_metrics_leave_out_unknown_values() -> None:
    found = {each.name: dict(each.values) for each in open_window_metrics([SHOWN, replace(SHOWN, table="b", age=None)])}
    assert found == {
        "waterclock_open_rows": {("raw.a",): 1, ("b",): 1},
        "waterclock_open_tick": {("raw.a",): 7, ("b",): 7},
        "waterclock_open_age_seconds": {("raw.a",): 3},
    }
