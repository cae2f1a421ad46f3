"""Run ticks or batches of a small project in a process that is killed or stopped at one point.

    python -m tests.faults.killing_a_speed_layer FOLDER tick|run POINT TIMES SIGKILL|SIGSTOP NOW

After a tick, the open windows are delivered to the destinations. It uses the JVM whose gateway the environment names.
It gets the signal when it passes the point for the last of TIMES.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime
from pathlib import Path
from unittest.mock import patch

from tests.faults.killing import LEASE, session_there, wait_for_leases
from tests.tiny import Tiny
from waterclock.engine.continuous.destinations import deliver_open_windows, publishes_of_open_windows
from waterclock.engine.continuous.tick import run_tick
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow
from waterclock.engine.run_settings import RunSettings
from waterclock.engine.runner import Runner
from waterclock.faults import inject_faults


def main(folder: str, form: str, point: str, times: str, how: str, at: str) -> int:
    """Run ticks or batches that are due at `at`; return 3 at the end."""
    now, left = datetime.fromisoformat(at), int(times)

    def strike(passed: str) -> None:
        nonlocal left
        left -= passed == point
        if passed == point and left == 0:
            os.kill(os.getpid(), signal.Signals[how])

    settings = RunSettings(threads=1, attempts=1, lease=LEASE, who="a test")
    tiny = Tiny(Path(folder), session_there(), toml=None, settings=settings)
    wait_for_leases(tiny)
    with patch.object(RunContext, "real_now", lambda _: now), tiny.opened() as work:
        apply_flow(work, now)
        with inject_faults(strike):
            if form == "run":
                Runner(work).run_once(now)
            else:
                run_tick(work)
                for table in publishes_of_open_windows(work.flow):
                    deliver_open_windows(work, table)
    return 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
