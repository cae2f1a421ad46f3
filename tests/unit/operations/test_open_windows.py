"""Texts on open windows made by ticks: the reason the oldest one waits, the number of rows shown, and their time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.model.flows import at, collect, flow
from waterclock.batches.ledger_snapshot import BatchStatus, FailedBatch, OpenClaim, TableFacts
from waterclock.flow.open_windows import open_table_of
from waterclock.operations.open_windows import (
    OpenWindow,
    OpenWindows,
    describe_wait,
    open_window_metrics,
    windows_of_ticks,
)
from waterclock.storage.commit.log_lag import LogLag, PartitionLag
from waterclock.storage.commit.speed_tables import SpeedState, TableOutage, record_check, record_hidden_labels
from waterclock.storage.lake import Lake
from waterclock.timelabel.intervals import IntervalSet

TABLE = flow(collect("raw.a", "DAY")).tables["raw.a"]
WINDOW = TABLE.cadence.window_of(at("2013-01-05"))
HIDDEN = (OpenWindow(WINDOW, "ends soon", rows=1), OpenWindow(WINDOW, "ends later", hidden="id is NULL in 2 rows"))
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


def test_words_have_the_reason_why_rows_are_hidden() -> None:
    assert (
        "; the oldest ends soon; the rows of 20130105000000 are hidden: id is NULL in 2 rows; raw.a_view shows"
        in replace(SHOWN, labels=HIDDEN).words()
    )


def test_words_have_the_sources_that_cannot_be_read() -> None:
    found = replace(SHOWN, outages=(TableOutage("raw.b", at("2013-01-05"), "the broker does not answer"),))
    assert (
        "; the oldest ends soon; raw.b has no new rows since 2013-01-05 00:00Z: the broker does not answer; raw.a_view"
        in found.words()
    )


LAG = LogLag(3120, 4, 2, (PartitionLag("3", 100, 2100, at("2013-01-05T10:00")), PartitionLag("0", 0, 1120)))


def test_words_have_the_lag_of_a_log_and_its_worst_partition() -> None:
    words = replace(SHOWN, log=LAG).words().replace(chr(0x2009), " ")
    lag = "no done batch has 3 120 offsets of 2 of 4 partitions, most of partition 3 (2 000, newest record "
    assert f"; the oldest ends soon; {lag}2013-01-05 10:00Z); raw.a_view shows" in words
    assert "; done batches have all offsets; raw" in replace(SHOWN, log=LogLag(0, 4, 0, LAG.worst)).words()


def test_a_tick_of_other_tables_does_not_count_as_a_read_of_a_source(tmp_path: Path) -> None:
    lake, now = Lake(str(tmp_path)), WINDOW.start + timedelta(hours=1)
    folder = lake.folder(open_table_of("raw.a"))
    for check, age in ((at("2013-01-05"), timedelta(hours=1)), (None, None)):
        record_check(folder, check, [TableOutage("raw.a", now, "the broker does not answer")])
        with patch("waterclock.storage.commit.speed_tables.read_state", lambda _: SpeedState(tick=7, at=now)):
            assert windows_of_ticks(lake, TABLE, TableFacts(), now).age == age
    record_check(folder, at("2013-01-05"))
    with patch("waterclock.storage.commit.speed_tables.read_state", lambda _: SpeedState(tick=7, at=now)):
        assert windows_of_ticks(lake, TABLE, TableFacts(), now).age == timedelta(0)


def test_metrics_leave_out_unknown_values() -> None:
    one = replace(SHOWN, labels=HIDDEN, log=LAG)
    found = {
        each.name: dict(each.values) for each in open_window_metrics([one, replace(one, table="b", age=None, log=None)])
    }
    assert found == {
        "waterclock_open_rows": {("raw.a",): 1, ("b",): 1},
        "waterclock_open_windows": {("raw.a",): 2, ("b",): 2},
        "waterclock_open_hidden_windows": {("raw.a",): 1, ("b",): 1},
        "waterclock_open_tick": {("raw.a",): 7, ("b",): 7},
        "waterclock_open_age_seconds": {("raw.a",): 3},
        "waterclock_open_tables_behind": {("raw.a",): 0, ("b",): 0},
        "waterclock_open_lag_offsets": {("raw.a",): 3120},
        "waterclock_open_partition_lag_offsets": {("raw.a", "3"): 2000, ("raw.a", "0"): 1120},
        "waterclock_open_partition_newest_timestamp_seconds": {("raw.a", "3"): at("2013-01-05T10:00").timestamp()},
    }


def test_windows_of_ticks_are_those_with_rows_hidden_ones_held_ones_and_the_current_one(tmp_path: Path) -> None:
    lake, day = Lake(str(tmp_path)), timedelta(days=1)
    folder = lake.folder(open_table_of("raw.a"))
    now = WINDOW.start + timedelta(hours=30)
    record_hidden_labels(folder, {WINDOW.start - day: "a rule", WINDOW.start - 3 * day: "done since"})
    done = IntervalSet.from_intervals([(WINDOW.start - 4 * day, WINDOW.start - 2 * day)])
    facts = TableFacts(covered=done, troubles={WINDOW.start - 2 * day: FAILED})
    found = windows_of_ticks(lake, TABLE, facts, now)
    assert [(each.label[:8], each.hidden, each.is_held) for each in found.labels] == [
        ("20130103", "its batch is held", True),
        ("20130104", "a rule", False),
        ("20130106", "", False),
    ]
    assert (found.windows, found.rows, found.age, found.shown) == (3, 0, None, None)


def test_only_the_newest_thousand_windows_are_read(tmp_path: Path) -> None:
    lake, day = Lake(str(tmp_path)), timedelta(days=1)
    reasons = {WINDOW.start - number * day: str(number) for number in range(1200)}
    facts = TableFacts(troubles=dict.fromkeys(reasons, FAILED))
    found = windows_of_ticks(lake, TABLE, facts, WINDOW.start)
    assert (found.windows, len(found.labels), found.labels[-1].label) == (1200, 1000, "20130105000000")
