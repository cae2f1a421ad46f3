"""A request for one of the two tables of APART means both, so their joining view never shows NULL by mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.engine.erasing.test_apart import FLOW, expected, project, whole
from tests.integration.engine.erasing.test_erasing import keys, killed, run
from tests.tiny import Tiny, day, labels
from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.cli.actions.rebuild import run_rebuild
from waterclock.cli.actions.release import release_batches
from waterclock.cli.actions.reset import reset_table
from waterclock.cli.actions.restate import RestateCommand, restate_batches
from waterclock.cli.actions.revert import commit_reverts
from waterclock.cli.actions.skip import skip_batches
from waterclock.engine.maintenance.user_drop import drop, find_droppable_windows
from waterclock.engine.run_opening import apply_flow
from waterclock.engine.runner_name import runner_name
from waterclock.operations.project_opening import open_read_only, select_batches
from waterclock.operations.proposals import Proposal, Verb, decide, propose
from waterclock.operations.restating import done_labels, labels_of_older_code
from waterclock.operations.reverting import RevertRequest, plan_revert
from waterclock.permissions.users_and_roles import owner
from waterclock.planner.reverting import PREVIOUS
from waterclock.selection import parse_labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["keys"]  # a fixture of all tests

EVENTS, PERSONS = "web.visits", "web.visits_apart"
BOTH = pytest.mark.parametrize("table", [EVENTS, PERSONS])
SMALL = FLOW.partition("TRANSFORM marts.pages")[0]
QUERY = "AS SELECT id, buyer, email, page FROM"
CHANGED = SMALL.replace(QUERY, "AS SELECT id, buyer, upper(email) AS email, page FROM")
FIRST = labels(1)


def small(root: Path, spark: SparkSession, flow: str = SMALL) -> Tiny:
    tiny = project(root, spark)
    tiny.declare(flow)
    return tiny


def changed_rows(*days: int) -> list[tuple[Any, ...]]:
    """Return the rows of the view if the changed query made the labels of `days`."""
    of_days = {1: expected()[:6], 2: expected()[6:]}
    return [
        (number, who, email and (email.upper() if each in days else email), page)
        for each, rows in of_days.items()
        for number, who, email, page in rows
    ]


def proposed(tiny: Tiny, verb: Verb, table: str, label: str | None = "2020-01-01") -> Proposal:
    """Decide as a page does."""
    with open_read_only(tiny.root, None, "2020-01-03") as at:
        proposal = propose(at, verb, table, label)
        decide(at, proposal, by=owner("ann"), why="a test")
        return proposal


def requested(tiny: Tiny) -> dict[str, list[datetime]]:
    with tiny.ledger() as ledger:
        snapshot = ledger.reads.snapshot(tiny.load().flow)
    return {name: sorted(snapshot.of(name).requested) for name in (EVENTS, PERSONS)}


def request_remake(tiny: Tiny, command: str, table: str, label: str | None, choose: Any = done_labels) -> None:
    wish = RestateCommand(command, RECOMPUTE, table, label, choose)
    restate_batches(tiny.root, None, wish, "2020-01-03", yes=True, is_run=False, is_json=False)


@BOTH
def test_recompute_of_one_table_makes_both(tmp_path: Path, spark: SparkSession, table: str) -> None:
    tiny = small(tmp_path, spark)
    run(tiny)
    tiny.declare(CHANGED)
    request_remake(tiny, "recompute", table, "2020-01-01")
    assert requested(tiny) == {EVENTS: [day(1)], PERSONS: [day(1)]}
    run(tiny)
    assert whole(tiny) == (changed_rows(1), [])
    request_remake(tiny, "backfill", table, None, labels_of_older_code)
    assert requested(tiny) == {EVENTS: [day(2)], PERSONS: [day(2)]}
    run(tiny)
    assert whole(tiny) == (changed_rows(1, 2), [])


@pytest.mark.sampled(1)
@BOTH
def test_the_pages_request_both_and_withdraw_both(tmp_path: Path, spark: SparkSession, table: str) -> None:
    tiny = small(tmp_path, spark)
    run(tiny)
    asked = {EVENTS: [day(1)], PERSONS: [day(1)]}
    found = proposed(tiny, Verb.RECOMPUTE, table)
    assert {name: [window.start for window in windows] for name, windows in found.requested.items()} == asked
    assert requested(tiny) == asked
    proposed(tiny, Verb.WITHDRAW, table)
    assert requested(tiny) == {EVENTS: [], PERSONS: []}
    for verb, names in ((Verb.PAUSE, {EVENTS, PERSONS}), (Verb.RESUME, set())):
        proposed(tiny, verb, table, None)
        with tiny.ledger() as ledger:
            snapshot = ledger.reads.snapshot(tiny.load().flow)
        assert {name for name in (EVENTS, PERSONS, "raw.visits") if snapshot.pause_of(name)} == names


@pytest.mark.sampled(1)
@BOTH
def test_backfill_and_run_make_both(tmp_path: Path, spark: SparkSession, table: str) -> None:
    tiny = small(tmp_path, spark)
    tiny.run(day(3), only=("raw.visits",))
    found = proposed(tiny, Verb.BACKFILL, table)
    assert set(found.requested) == {EVENTS, PERSONS}
    selected, by_table = select_batches(tiny.load().flow, [table], "2020-01-01")
    assert (set(selected.tables), set(by_table)) == ({EVENTS, PERSONS}, {EVENTS, PERSONS})
    tiny.run(day(3), only=selected.tables, labels=by_table)
    assert whole(tiny) == (expected()[:6], [])


FAILS = {
    EVENTS: SMALL.replace("page STRING)\n  APART", "page STRING EXPECT (page <> '/c'))\n  APART"),
    PERSONS: SMALL.replace(
        "email STRING, page STRING)\n  APART", "email STRING EXPECT (email <> 'eva@two.example'), page STRING)\n  APART"
    ),
}


@pytest.mark.sampled(1)
@BOTH
def test_retry_of_one_table_after_a_change_makes_both(tmp_path: Path, spark: SparkSession, table: str) -> None:
    tiny = small(tmp_path, spark, FAILS[table])
    tiny.run(day(3))
    tiny.declare(CHANGED)
    other = PERSONS if table == EVENTS else EVENTS
    found = proposed(tiny, Verb.RETRY, table, "2020-01-02")
    assert {name: [window.start for window in of] for name, of in found.all.items()} == {
        table: [day(2)],
        other: [day(2)],
    }
    run(tiny)
    assert whole(tiny) == (changed_rows(2), [])


HOLDS = SMALL.replace("(email) FOR 2 DAYS", "(email) FOR 2 DAYS EXPECT count(*) > 2 AS many ELSE HOLD").replace(
    "email STRING, page STRING)\n  APART",
    "email STRING EXPECT (email <> 'eva@two.example') ELSE HOLD, page STRING)\n  APART",
)


@pytest.mark.sampled(1)
@BOTH
@pytest.mark.parametrize("by_page", [True, False])
def test_release_of_one_table_releases_both(
    tmp_path: Path, spark: SparkSession, table: str, capsys: pytest.CaptureFixture[str], *, by_page: bool
) -> None:
    tiny = small(tmp_path, spark, HOLDS)
    tiny.run(day(3))
    held = {name: of for (name, _), of in tiny.batches().items() if of == "held"}
    assert set(held) == {EVENTS, PERSONS}
    if by_page:
        assert set(proposed(tiny, Verb.RELEASE, table, "2020-01-02").requested) == {EVENTS, PERSONS}
        run(tiny)
    else:
        capsys.readouterr()
        release_batches(tiny.root, None, f"{table}@2020-01-02", "checked", "2020-01-03", yes=True, is_json=True)
        answer = json.loads(capsys.readouterr().out)
        other = PERSONS if table == EVENTS else EVENTS
        assert (answer["table"], answer["released"], answer["others"]) == (table, labels(2), {other: labels(2)})
    rows, _ = whole(tiny)
    assert [row for row in rows if row[3] == "/c"] == expected()[6:]


@pytest.mark.sampled(1)
@BOTH
@pytest.mark.parametrize("by_page", [True, False])
def test_skip_of_one_table_skips_the_label_of_both(
    tmp_path: Path, spark: SparkSession, table: str, capsys: pytest.CaptureFixture[str], *, by_page: bool
) -> None:
    tiny = small(tmp_path, spark)
    tiny.run(day(3), only=("raw.visits",))
    if by_page:
        assert set(proposed(tiny, Verb.SKIP, table, "2020-01-02").requested) == {EVENTS, PERSONS}
    else:
        capsys.readouterr()
        skip_batches(tiny.root, None, (table, "2020-01-02"), "lost", "2020-01-03", yes=True, is_json=True)
        answer = json.loads(capsys.readouterr().out)
        other = PERSONS if table == EVENTS else EVENTS
        assert (answer["skipped"], answer["others"]) == (labels(2), {other: labels(2)})
    run(tiny)
    states = tiny.batches()
    assert [states[name, labels(2)[0]] for name in (EVENTS, PERSONS)] == ["skipped", "skipped"]
    assert whole(tiny) == (expected()[:6], [])


def test_skip_keeps_the_other_table_if_it_is_done(tmp_path: Path, spark: SparkSession) -> None:
    tiny = small(tmp_path, spark, FAILS[PERSONS])
    tiny.run(day(3))
    assert set(proposed(tiny, Verb.SKIP, PERSONS, "2020-01-02").requested) == {PERSONS}
    assert whole(tiny)[1] == []


@pytest.mark.sampled(1)
@BOTH
def test_revert_of_one_table_reverts_both(tmp_path: Path, spark: SparkSession, table: str) -> None:
    tiny = small(tmp_path, spark)
    run(tiny)
    tiny.declare(CHANGED)
    request_remake(tiny, "recompute", table, "2020-01-01")
    run(tiny)
    assert whole(tiny) == (changed_rows(1), [])
    with open_read_only(tiny.root, None, "2020-01-03") as at:
        plan = plan_revert(at, RevertRequest(f"{table}@2020-01-01", PREVIOUS))
    assert [of.name for of, _ in plan.parts] == [table, PERSONS if table == EVENTS else EVENTS]
    with tiny.opened() as work:
        commit_reverts(work, plan, "a test", day(3))
    assert whole(tiny) == (expected(), [])
    run(tiny)
    assert whole(tiny) == (expected(), [])


def test_revert_of_the_events_leaves_dropped_persons_alone(tmp_path: Path, spark: SparkSession) -> None:
    tiny = small(tmp_path, spark)
    run(tiny)
    tiny.declare(CHANGED)
    request_remake(tiny, "recompute", EVENTS, "2020-01-01")
    run(tiny)
    with tiny.opened() as work:
        apply_flow(work, day(3))
        table = work.flow.tables[PERSONS]
        drop(work, find_droppable_windows(work, table, parse_labels("2020-01-01"), day(3)), why="a test")
    with open_read_only(tiny.root, None, "2020-01-03") as at:
        plan = plan_revert(at, RevertRequest(f"{EVENTS}@2020-01-01", PREVIOUS))
    assert [of.name for of, _ in plan.parts] == [EVENTS]


@pytest.mark.sampled(1)
@BOTH
def test_reset_and_rebuild_of_one_table_mean_both(
    tmp_path: Path, spark: SparkSession, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = small(tmp_path, spark)
    run(tiny)
    run_rebuild(tiny.root, None, [table], yes=True, is_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert {each["table"] for each in answer["tables"]} == {EVENTS, PERSONS}
    tiny.declare(CHANGED)
    reset_table(tiny.root, None, table, "a test", yes=True, is_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert (answer["table"], answer["others"]) == (table, [PERSONS if table == EVENTS else EVENTS])
    run(tiny)
    assert whole(tiny) == (changed_rows(1, 2), [])


def test_replay_of_the_events_makes_their_persons_again(tmp_path: Path, spark: SparkSession) -> None:
    rule = "page STRING EXPECT (page <> '/c') AS known ELSE QUARANTINE)\n  APART"
    tiny = small(tmp_path, spark, SMALL.replace("page STRING)\n  APART", rule))
    run(tiny)
    assert whole(tiny) == (expected()[:6], [])
    tiny.declare(CHANGED)
    assert set(proposed(tiny, Verb.REPLAY, EVENTS, "2020-01-02").requested) == {EVENTS, PERSONS}
    run(tiny)
    assert whole(tiny) == (changed_rows(2), [])


def test_persons_follow_events_that_are_made_again_for_a_reason_of_their_own(
    tmp_path: Path, spark: SparkSession
) -> None:
    """REFERENCES ... ELSE reads a table that the persons do not read."""
    pages = """COLLECT raw.pages PARTITIONED (page STRING KEY, at TIMESTAMP) FROM shop.pages EVERY DAY BY DATA TIME at;
TRANSFORM web.visits"""
    column = "page STRING REFERENCES raw.pages (page) ELSE DROP)\n  APART"

    def flow(text: str) -> str:
        return text.replace("TRANSFORM web.visits", pages).replace("page STRING)\n  APART", column)

    tiny = small(tmp_path, spark, flow(SMALL))
    tiny.source("pages", "page TEXT, at TEXT", [(page, "2020-01-01 01:00:00") for page in ("/a", "/b")])
    run(tiny)
    assert whole(tiny) == (expected()[:6], [])
    tiny.declare(flow(CHANGED))
    tiny.shop("INSERT INTO pages VALUES ('/c', '2020-01-02 01:00:00')")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("raw.pages", [day(2)], "recollect", who="ann")
    run(tiny)
    assert whole(tiny) == (changed_rows(2), [])


def test_the_view_leaves_out_labels_that_different_queries_made(tmp_path: Path, spark: SparkSession) -> None:
    tiny = small(tmp_path, spark)
    run(tiny)
    tiny.declare(CHANGED)
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate(EVENTS, [day(1)], RECOMPUTE, who="ann")
    tiny.run(day(3), only=(EVENTS,))
    assert whole(tiny) == (expected()[6:], [(EVENTS, FIRST[0], 1)])
    run(tiny)  # makes the persons as well, which the batch of the events requested
    assert whole(tiny) == (changed_rows(1), [])


@BOTH
def test_a_batch_that_is_killed_before_its_record_still_requests_the_other(
    tmp_path: Path, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = small(tmp_path, spark)
    run(tiny)
    tiny.declare(CHANGED)
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate(table, [day(1)], RECOMPUTE, who="ann")
    settings, runner = tiny.settings, runner_name()
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    tiny.settings = replace(settings, runner=runner.replace(f":{os.getpid()}:", f":{ended.pid}:"))
    with killed("other_part.requested", monkeypatch) as struck:
        tiny.run(day(3), only=(table,))
    assert struck
    tiny.settings = settings
    run(tiny)
    assert whole(tiny) == (changed_rows(1), [])


def test_a_change_of_a_rule_of_one_table_pairs_with_older_labels(tmp_path: Path, spark: SparkSession) -> None:
    tiny = small(tmp_path, spark)
    run(tiny)
    tiny.declare(SMALL.replace("(email) FOR 2 DAYS", "(email) FOR 2 DAYS EXPECT count(*) > 0 AS some"))
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate(EVENTS, [day(1)], RECOMPUTE, who="ann")
    run(tiny)
    assert whole(tiny) == (expected(), [])
    assert tiny.runs_of(PERSONS) == 2, "the persons need not be made again"
