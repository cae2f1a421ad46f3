"""Run a small project, or one of its tables, in a process that waits at one point and is killed at another.

    python -m tests.faults.waiting FOLDER runner TABLE NOW WAIT DIE

At the first pass of WAIT it creates the file `TABLE.waits`, and continues when `TABLE.goes` exists. `-` means no point,
or as a table, all tables. It uses the JVM whose gateway the environment names, which survives.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import datetime
from pathlib import Path

from tests.faults.killing import LEASE, session_there
from tests.tiny import Tiny, described
from waterclock.engine.run_settings import RunSettings
from waterclock.faults import inject_faults

PATIENCE = 240


def wait_for(path: Path, patience: float = PATIENCE) -> None:
    """Wait until another process has created a file."""
    end = time.monotonic() + patience
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} did not come"
        time.sleep(0.05)


def main(folder: str, form: str, table: str, now: str, wait: str, die: str) -> int:
    """Run due batches of a table; return 3 if it was not killed, and 4 if a batch failed."""
    assert form == "runner"
    root, waited = Path(folder), not wait.strip("-")

    def pass_by(point: str) -> None:
        nonlocal waited
        if point == wait and not waited:
            waited = True
            (root / f"{table}.waits").touch()
            wait_for(root / f"{table}.goes")
        if point == die and waited:
            os.kill(os.getpid(), signal.SIGKILL)

    settings = RunSettings(threads=2, attempts=1, lease=LEASE, who="a test")
    tiny = Tiny(root, session_there(), toml=None, settings=settings)
    with inject_faults(pass_by):
        outcome = tiny.run(datetime.fromisoformat(now), only=None if table == "-" else [table])
    sys.stderr.write(f"{die} of {table} was not passed: {outcome.done} done, {described(outcome)}\n")
    sys.stderr.flush()
    os._exit(4 if outcome.failed else 3)  # the JVM belongs to another process: leave it running


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
