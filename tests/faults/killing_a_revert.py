"""Revert labels of a small project in a process that kills itself by SIGKILL at one point of the claim.

    python -m tests.faults.killing_a_revert FOLDER TABLE@LABELS NOW POINT

No JVM is started: the slices are committed by pointers.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime
from pathlib import Path

from waterclock.cli.actions.revert import commit_reverts
from waterclock.engine.run_opening import open_workplace
from waterclock.faults import inject_faults
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.reverting import RevertRequest, plan_revert


def main(folder: str, which: str, now: str, point: str) -> None:
    """Revert the labels to their previous revisions, and die at `point`."""

    def strike(passed: str) -> None:
        if passed == point:
            os.kill(os.getpid(), signal.SIGKILL)

    with open_read_only(Path(folder), None, now) as at:
        project, plan = at.project, plan_revert(at, RevertRequest(which, "previous"))
    with open_workplace(project) as work, inject_faults(strike):
        commit_reverts(work, plan, "it was right", datetime.fromisoformat(now))
    if "pyspark" in sys.modules and work.sessions.page() is not None:
        sys.exit("a JVM was started")


if __name__ == "__main__":
    main(*sys.argv[1:])
