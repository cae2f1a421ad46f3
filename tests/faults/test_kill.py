"""After SIGKILL of a runner, alone or with its whole process group, the next run continues from the state it left."""

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

# (now, point, table): one start each, which continues from the state of the one before. Batches that run in parallel
# with the killed one may be done by then, so the last kill has a day of its own whose batch is certainly pending.
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
    """Start the driver as the leader of a process group, which ends with the block.

    If only the runner is killed, its JVM is that of the tests and survives; otherwise the driver starts a JVM that is
    killed with it.
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
    """Return the driver's output about its run, for a driver that was not killed."""
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
            # jobs of the surviving JVM continue in parallel with the next start
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
