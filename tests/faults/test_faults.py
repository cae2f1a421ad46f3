"""After a failure at any step, the final state equals that of an undisturbed run."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.flow import DAYS, prepare, standing
from tests.tiny import Heard, Tiny, day, described, evening
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.engine.run_outcome import RunOutcome
    from waterclock.planner.plan import Group

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# the first day alone, so that every table is made; then two at once, in groups where allowed. A batch that is struck
# after its commit leaves its files to the next one, so there are more days than points after a commit.
SCHEDULE = (day(2), day(3), day(4), *(day(DAYS + number) for number in range(1, 4)))
LEASE = 1.0
LOOKS = 20
Points = dict[str, set[str]]


class Struck(Exception):
    """An injected failure, worded as a transient one, so that the run retries."""


class Passing(Heard):
    """Tracks the table whose batch a thread makes, and the points it has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.at: dict[int, str] = {}
        self.passed: Points = defaultdict(set)

    def step(self, group: Group, name: str) -> None:
        del name
        self.at[threading.get_ident()] = group.table

    def pass_by(self, point: str) -> None:
        self.passed[self.at.get(threading.get_ident(), "")].add(point)


class Striking(Passing):
    """Fails every table's batches once at each point they pass."""

    def pass_by(self, point: str) -> None:
        table = self.at.get(threading.get_ident(), "")
        if point not in self.passed[table]:
            self.passed[table].add(point)
            raise Struck(f"{point} of {table} is temporarily unavailable")


def run_all(tiny: Tiny, heard: Passing) -> None:
    tiny.heard = heard
    prepare(tiny)
    for number in (DAYS + 1, DAYS + 2):
        tiny.land("clicks", evening(number), f"id,customer\n{number}1,c1\n{number}2,c2\n")
    with inject_faults(heard.pass_by):
        for now in SCHEDULE:
            outcome = tiny.run(now)
            for _ in range(LOOKS):
                # a claim whose commit was struck stays open until its lease ends
                if not tiny.open_claims() and not outcome.failed and not is_left(outcome):
                    break
                time.sleep(LEASE / 2)
                outcome = tiny.run(now)
            assert not outcome.failed, described(outcome)


def is_left(outcome: RunOutcome) -> bool:
    """Return whether a run has left work for the next one."""
    return outcome.plan is not None and bool(outcome.plan.groups)


def test_a_fault_at_every_step_of_every_kind_of_batch_changes_nothing_in_the_end(
    tmp_path: Path, spark: SparkSession
) -> None:
    undisturbed, disturbed = (Tiny(tmp_path / name, spark) for name in ("undisturbed", "disturbed"))
    disturbed.settings = type(disturbed.settings)(threads=2, attempts=40, retry_wait=0.0, lease=LEASE, who="a test")
    quiet, struck = Passing(), Striking()
    run_all(undisturbed, quiet)
    run_all(disturbed, struck)
    wanted, found = standing(undisturbed), standing(disturbed)
    for part, rows in wanted.items():
        assert found[part] == rows, part
    for table, points in quiet.passed.items():
        assert points <= struck.passed[table], table
    assert len(struck.passed) > len(wanted["batches"]) / len(SCHEDULE) / 2
    assert_no_fewer_points(quiet.passed)


def assert_no_fewer_points(passed: Points) -> None:
    """Assert that all steps of the commit protocol are struck: a point that was removed is no longer tested."""
    steps = {"claimed", "make", "sealed", "audited", "before_commit", "after_commit", "committed", "recorded"}
    made = [points for table, points in passed.items() if table and not table.startswith(("out.", "files."))]
    assert made
    for points in made:
        assert steps <= points
    delivered: set[str] = set()
    for table, points in passed.items():
        if table.startswith("out."):
            delivered |= points
    assert {"deliver.rows", "deliver.done"} <= delivered


def test_the_compared_state_covers_tables_archive_and_deliveries(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    prepare(tiny)
    assert not tiny.run(day(2)).failed
    seen: dict[str, Any] = standing(tiny)
    assert seen["open claims"] == 0
    assert seen["shop.orders"]
    assert seen["web.clicks"]
    assert seen["archive"]
    assert seen["out.orders"]
    assert seen["files"]
