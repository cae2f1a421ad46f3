"""Run a small project in a process that is killed by SIGKILL at one point of one table's batch.

    python -m tests.faults.killing FOLDER runner|group POINT TABLE NOW

`group` starts a JVM and kills it, too. `runner` kills only this process; it uses the JVM whose gateway the environment
names, which survives.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.tiny import TOML, Heard, Tiny, described
from waterclock.engine.run_settings import RunSettings
from waterclock.engine.spark.session import open_session
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.planner.plan import Group

LEASE = 2.0


class Killing(Heard):
    """Kills the process when a thread with a batch of `table` passes `point`."""

    def __init__(self, form: str, point: str, table: str) -> None:
        super().__init__()
        self.form, self.point, self.table = form, point, table
        self.at: dict[int, str] = {}

    def step(self, group: Group, name: str) -> None:
        del name
        self.at[threading.get_ident()] = group.table

    def pass_by(self, point: str) -> None:
        if point != self.point or self.at.get(threading.get_ident()) != self.table:
            return
        if self.form == "runner":
            os.kill(os.getpid(), signal.SIGKILL)
        os.killpg(0, signal.SIGKILL)


def wait_for_leases(tiny: Tiny) -> None:
    """Wait until the leases of all open claims have ended; no runner extends them."""
    with tiny.ledger() as ledger:
        while any(claim.lease_until >= ledger.now() for claim in ledger.claims.open()):
            time.sleep(0.1)


def gateway_of(spark: SparkSession) -> dict[str, str]:
    """Return the environment variables that a process needs to use this session's JVM."""
    parameters: Any = spark.sparkContext._gateway.gateway_parameters  # type: ignore[union-attr]
    return {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}


def session_there() -> SparkSession:
    """Return the session of the JVM that the environment names, which has its context already."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    context = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    conf = SparkConf(_jvm=gateway.jvm, _jconf=context.conf())
    there = gateway.jvm.JavaSparkContext.fromSparkContext(context)
    return SparkSession(SparkContext(gateway=gateway, jsc=there, conf=conf))


def main(folder: str, form: str, point: str, table: str, now: str, *, toml: str | None = TOML) -> int:
    """Run due batches at `now`; return 3 if the point was not passed."""
    root = Path(folder)
    own = {"spark.sql.shuffle.partitions": "1"}
    spark = session_there() if form == "runner" else open_session("local[2]", root / ".spark", own)
    killing = Killing(form, point, table)
    settings = RunSettings(threads=2, attempts=1, lease=LEASE, who="a test")
    tiny = Tiny(root, spark, toml=toml, heard=killing, settings=settings)
    wait_for_leases(tiny)
    with inject_faults(killing.pass_by):
        outcome = tiny.run(datetime.fromisoformat(now))
    sys.stderr.write(f"{point} of {table} was not passed: {outcome.done} done, {described(outcome)}, {killing.said_}\n")
    if form == "group":
        spark.stop()
    return 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
