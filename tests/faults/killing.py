"""Runs a tiny project in a process of its own, which is killed by SIGKILL at one point of one table's batch.

    python -m tests.faults.killing FOLDER runner|group POINT TABLE NOW

`runner` kills this process alone, so that its JVM lives on for a moment; `group` kills all that it started, too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tests.tiny import Heard, Tiny, described
from waterclock.engine.session import open_session
from waterclock.engine.settings import RunSettings
from waterclock.faults import striking

if TYPE_CHECKING:
    from waterclock.planner import Group

LEASE = 2.0


class Killing(Heard):
    """Kills where a thread that is at a batch of `table` passes `point`."""

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
    """Wait until the leases of all open claims have run out: nobody renews them any more."""
    with tiny.ledger() as ledger:
        while len(ledger.expired(ledger.now())) < len(ledger.open_claims()):
            time.sleep(0.1)


def main(folder: str, form: str, point: str, table: str, now: str) -> int:
    """Run what is due at `now`; gives 3 where the point was not passed."""
    root = Path(folder)
    spark = open_session("local[2]", root / ".spark", {"spark.sql.shuffle.partitions": "1"})
    killing = Killing(form, point, table)
    tiny = Tiny(root, spark, heard=killing, settings=RunSettings(threads=2, attempts=1, lease=LEASE, who="a test"))
    wait_for_leases(tiny)
    with striking(killing.pass_by):
        outcome = tiny.run(datetime.fromisoformat(now))
    sys.stderr.write(f"{point} of {table} was not passed: {outcome.done} done, {described(outcome)}, {killing.said_}\n")
    spark.stop()
    return 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
