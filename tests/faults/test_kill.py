"""A runner that is killed by SIGKILL, alone or with all it started, leaves what the next run carries on with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.flow import prepare, standing
from tests.faults.killing import gateway_of, wait_for_leases
from tests.tiny import Tiny, day, described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, customer STRING, amount BIGINT, at TIMESTAMP)
  FROM shop.orders EVERY DAY BY DATA TIME at;
TRANSFORM clean.orders PARTITIONED (id KEY, *) EXPECT amount > 0 AS paid ELSE WARN
  AS SELECT id, customer, amount FROM shop.orders;
TRANSFORM marts.spent (customer KEY, *) MERGE ORDER BY orders
  AS SELECT customer, count(*) AS orders, sum(amount) AS amount FROM clean.orders GROUP BY customer;
PUBLISH clean.orders TO out.orders;
"""
TABLES = ("shop.orders", "clean.orders", "marts.spent")
REPOSITORY = Path(__file__).parents[2]
PATIENCE = 300

# (now, point, table): one start each, after which the next one begins with what was left. What runs beside the table
# that is struck may be done by then: the last kill is on a day of its own, so that its batch is surely still to come.
KILLS = {
    "runner": (
        (day(2), "claimed", "shop.orders"),
        (day(2), "written", "clean.orders"),
        (day(2), "before_commit", "marts.spent"),
        (day(3), "after_commit", "marts.spent"),
        (day(4), "committed", "out.orders"),
    ),
    "group": (
        (day(2), "written", "shop.orders"),
        (day(2), "before_commit", "clean.orders"),
        (day(2), "after_commit", "clean.orders"),
        (day(3), "committed", "shop.orders"),
        (day(4), "claimed", "out.orders"),
    ),
}


@contextmanager
def started(spark: SparkSession, *words: str, module: str = "tests.faults.killing") -> Iterator[subprocess.Popen[str]]:
    """Start the driver as the first of a process group, of which nothing is left behind the block.

    Where the runner alone is killed, its JVM is ours and lives on; else it starts one, which is killed with it.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=REPOSITORY,
        env=os.environ | (gateway_of(spark) if "runner" in words else {}),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def said_by(process: subprocess.Popen[str]) -> str:
    """Return what a driver that was not killed says of its run."""
    return process.stderr.read() if process.stderr is not None else ""


@pytest.mark.parametrize(
    ("form", "points"),
    [
        pytest.param("runner", (0, 3), id="runner, two of them"),
        pytest.param("runner", range(5), id="runner", marks=pytest.mark.soak),
        pytest.param("group", range(5), id="group", marks=pytest.mark.soak),
    ],
)
def test_a_kill_at_five_points_in_turn_changes_nothing_in_the_end(
    form: str, points: Sequence[int], tmp_path: Path, spark: SparkSession
) -> None:
    undisturbed, killed = (Tiny(tmp_path / name, spark) for name in ("undisturbed", "killed"))
    for tiny in (undisturbed, killed):
        prepare(tiny)
        tiny.declare(FLOW)
    for now in (day(2), day(3), day(4)):
        outcome = undisturbed.run(now)
        assert not outcome.failed, described(outcome)

    for now, point, table in [KILLS[form][number] for number in points]:
        with started(spark, str(killed.root), form, point, table, now.isoformat()) as process:
            # what the JVM that lives on still does goes on beside the next start
            assert process.wait(PATIENCE) == -signal.SIGKILL, f"{point} of {table}: {said_by(process)}"
        assert killed.open_claims() > 0, (point, table)
    wait_for_leases(killed)
    outcome = killed.run(day(4))
    assert not outcome.failed, described(outcome)
    wanted, found = (standing(tiny, TABLES, ["orders"]) for tiny in (undisturbed, killed))
    for part, rows in wanted.items():
        assert found[part] == rows, part
    assert found["open claims"] == 0
    assert found["marts.spent"]
