"""Runs the due batches in a separate process that is killed by SIGKILL at one of its steps.

    python -m tests.life.killed FOLDER NOW AFTER

It uses the JVM whose gateway is named in the environment, which keeps running.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime
from pathlib import Path
from unittest.mock import patch

from tests.faults.killing import session_there
from tests.life.world import LEASE
from tests.tiny import Tiny
from waterclock.connectors.forms.database import FormsDatabase
from waterclock.engine.run_settings import RunSettings
from waterclock.faults import inject_faults


def main(folder: str, now: str, after: str) -> None:
    """Run, and kill the process at the step of that number; with fewer steps, exit normally."""
    left = int(after)

    def pass_by(point: str) -> None:
        nonlocal left
        del point
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    settings = RunSettings(threads=2, attempts=3, retry_wait=0.01, lease=LEASE, who="a life")
    tiny = Tiny(Path(folder), session_there(), toml=None, settings=settings)
    at = datetime.fromisoformat(now)
    with inject_faults(pass_by), patch.object(FormsDatabase, "now", lambda _database, _session: at):
        tiny.run(at)
    os._exit(0)  # the JVM belongs to another process and must not be closed


if __name__ == "__main__":
    main(*sys.argv[1:])
