"""Claims of another runner are taken over: at once if it has ended on this machine, else when the lease ends."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.engine.run_opening import apply_flow
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FLOW = "COLLECT raw.sales PARTITIONED (id INT, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;"
NAMED = "from waterclock.engine.runner_name import runner_name; print(runner_name())"


def test_claims_of_a_runner_that_has_ended_here_do_not_wait_for_their_lease(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("sales", "id INT, at TEXT", [(n, f"2020-01-0{n} 12:00:00") for n in (1, 2, 3)])
    tiny.declare(FLOW)
    assert not tiny.run(day(2)).failed
    ended = subprocess.run([sys.executable, "-c", NAMED], capture_output=True, text=True, check=True).stdout.strip()
    with tiny.opened() as work:
        apply_flow(work, day(4))
        tiny.claim(work, "raw.sales", 2, runner=ended)
        tiny.claim(work, "raw.sales", 3)
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert tiny.done("raw.sales") == labels(1, 2)
    assert [said for said in tiny.heard.said_ if f"was abandoned by {ended}: killed" in said]
    assert sorted(row[0] for row in tiny.rows("SELECT id FROM raw.sales")) == [1, 2]


@pytest.mark.parametrize("often", [1, 3])
def test_a_claim_that_the_run_itself_left_open_is_settled_by_it_before_it_ends(
    tmp_path: Path, spark: SparkSession, often: int
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("sales", "id INT, at TEXT", [(1, "2020-01-01 12:00:00")])
    tiny.declare(FLOW)
    tiny.settings = replace(tiny.settings, lease=1.0)
    passed: list[str] = []

    def strike(point: str) -> None:
        passed.append(point)
        away = point == "settling" and passed.count(point) <= often
        if away or (point == "before_commit" and passed.count(point) == 1):
            raise WaterclockError("E609", "the store is away", transient=True)

    with inject_faults(strike):
        outcome = tiny.run(day(2))
    if often == 1:
        assert not outcome.has_failed, described(outcome)
        assert (tiny.done("raw.sales"), tiny.open_claims()) == (labels(1), 0)
        assert tiny.rows("SELECT count(*) FROM raw.sales") == [(1,)]
    else:  # it still cannot be settled as the run ends, which is reported
        assert outcome.has_failed
        assert [error.code for error in outcome.unsettled] == ["E609"]
        time.sleep(1.1)  # a run in another process would not wait for the lease
        assert not tiny.run(day(2)).has_failed
        assert (tiny.done("raw.sales"), tiny.open_claims()) == (labels(1), 0)
