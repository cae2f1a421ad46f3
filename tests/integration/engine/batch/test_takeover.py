"""What a runner left behind is taken over: at once where it has ended here, else when its lease is out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.engine.opening import apply_flow

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
    assert [said for said in tiny.heard.said_ if f"was left behind by {ended}: killed" in said]
    assert sorted(row[0] for row in tiny.rows("SELECT id FROM raw.sales")) == [1, 2]
