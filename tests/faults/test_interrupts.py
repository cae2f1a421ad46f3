"""`waterclock run` when its Spark dies, or when Ctrl-C stops it during a Spark job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from tests.tiny import Tiny, day, described, labels
from waterclock.engine.ledger_opening import ledger_url
from waterclock.ledger.store.schema import claims

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLLECT = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders
  EVERY DAY BY DATA TIME at;
"""
LATER = "TRANSFORM late.orders PARTITIONED AS SELECT id, 2 * doubled AS much FROM clean.orders;"
CODE = """\
from __future__ import annotations

import os
import signal
from pathlib import Path

import waterclock as wc

BEGUN = Path(__file__).with_name("begun")


@wc.transform("clean.orders", partitioned=True)
def orders(orders: wc.DataFrame = wc.table("shop.orders")) -> wc.DataFrame:
    is_first = not BEGUN.exists()
    BEGUN.touch()
    doubled = orders.selectExpr("id", "2 * amount AS doubled")
    %s
    return doubled
"""
KILLS_ITS_JVM = """\
if is_first:
        os.kill(orders.sparkSession.sparkContext._gateway.proc.pid, signal.SIGKILL)"""
# sleeps three seconds per row in the executor
TAKES_ITS_TIME = """doubled = doubled.where("reflect('java.lang.Thread', 'sleep', 3000L) IS NOT NULL OR id > 0")"""
NEVER_ENDS = """\
if is_first:
        doubled = doubled.crossJoin(orders.sparkSession.range(10**12).selectExpr("sum(hash(id)) AS n")).drop("n")
        doubled = doubled.where("rand() >= 0")"""
PATIENCE = 300.0  # a cold Spark on a busy machine takes minutes


@pytest.fixture
def tiny(tmp_path: Path, spark: SparkSession) -> Tiny:
    # interrupt a process with its own JVM; a run in this process does the remaining work
    made = Tiny(tmp_path, spark)
    made.source("orders", "id INTEGER, amount INTEGER, at TEXT", [(n, n, f"2020-01-{n:02d} 12:00:00") for n in (1, 2)])
    return made


def declare(tiny: Tiny, code: str) -> Path:
    """Declare the flow with `code` in its Python transform; return the file that appears when it is called."""
    tiny.declare(COLLECT + LATER)
    (tiny.root / "flows" / "slow.py").write_text(CODE % code)
    return tiny.root / "flows" / "begun"


@contextmanager
def running(tiny: Tiny, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start `waterclock run` as the leader of a process group, which ends with the block."""
    run = subprocess.Popen(
        [sys.executable, "-m", "waterclock", "run", *words],
        cwd=tiny.root,
        env={**os.environ, "COLUMNS": "160"},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield run
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def said_by(run: subprocess.Popen[str]) -> str:
    said, _ = run.communicate(timeout=PATIENCE)
    return said


def begins_to_make(tiny: Tiny, begun: Path) -> None:
    """Wait until Spark makes the transform's batch."""
    log = tiny.root / ".waterclock" / "tables" / "clean" / "orders" / "_delta_log"
    wait_until(lambda: begun.exists() and log.exists())
    time.sleep(1)


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until, "the condition was not met in time"
        time.sleep(0.05)


def group_is_gone(group: int) -> bool:
    """Return whether all processes of a group have ended, including those that are not yet waited for."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # one that ended meanwhile
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                return False
    return True


def let_leases_run_out(tiny: Tiny) -> None:
    engine = sa.create_engine(ledger_url(tiny.load()))
    with engine.begin() as connection:
        connection.execute(sa.update(claims).values(lease_until=day(1)))
    engine.dispose()


@pytest.mark.soak
def test_a_run_with_until_restarts_spark_after_its_jvm_was_killed(tiny: Tiny) -> None:
    declare(tiny, KILLS_ITS_JVM)
    with running(tiny, "--now", "2020-01-02", "--until", "2020-01-03") as run:
        said = said_by(run)
    assert run.returncode == 0, said  # the lost batch was made once more
    assert said.count("E712 Spark's JVM has ended") == 1
    assert "Spark has ended and is started again" in said
    assert "Traceback" not in said
    for table in ("shop.orders", "clean.orders", "late.orders"):
        assert tiny.done(table) == labels(1, 2), said
    assert tiny.open_claims() == 0
    wait_until(lambda: group_is_gone(run.pid))


def test_ctrl_c_finishes_the_running_batch_and_reports_the_remaining_ones(tiny: Tiny) -> None:
    begun = declare(tiny, TAKES_ITS_TIME)
    with running(tiny, "--now", "2020-01-02") as run:
        begins_to_make(tiny, begun)
        os.killpg(run.pid, signal.SIGINT)
        said = said_by(run)
        assert run.returncode == 130, said
        assert "running batches are finished" in said
        assert "stopped; 1 batch remains (ready)" in said
        assert "Traceback" not in said
        wait_until(lambda: group_is_gone(run.pid))
    assert tiny.done("clean.orders") == labels(1)
    assert tiny.done("late.orders") == []
    assert tiny.open_claims() == 0

    again = tiny.run(day(2))
    assert not again.failed, described(again)
    assert tiny.done("late.orders") == labels(1)


@pytest.mark.soak
def test_ctrl_c_twice_exits_at_once_and_the_next_run_takes_over(tiny: Tiny) -> None:
    begun = declare(tiny, NEVER_ENDS)
    with running(tiny, "--now", "2020-01-02") as run:
        begins_to_make(tiny, begun)
        os.killpg(run.pid, signal.SIGINT)
        time.sleep(1)
        assert run.poll() is None
        os.killpg(run.pid, signal.SIGINT)
        said = said_by(run)
        assert run.returncode == 130, said
        assert "the next run takes over" in said
        wait_until(lambda: group_is_gone(run.pid))
    assert tiny.open_claims() == 1
    assert tiny.done("clean.orders") == []

    let_leases_run_out(tiny)
    again = tiny.run(day(2))
    assert not again.failed, described(again)
    assert tiny.done("late.orders") == labels(1)
    assert tiny.open_claims() == 0
