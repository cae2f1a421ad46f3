"""Run a command line in a process that sends itself a signal when it passes a point for the nth time.

    python -m tests.faults.killing_a_branch SIGKILL|SIGSTOP POINT NUMBER WORDS...

Its Spark is the JVM whose gateway the environment names, which survives.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from tests.faults.killing import session_there
from waterclock.cli.app import main as run_command
from waterclock.engine.spark.session import Sessions
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_there(sessions: Sessions) -> SparkSession:
    """Use the JVM of the test, and leave it running."""
    sessions._is_borrowed = True
    return session_there()


def main(sent: str, point: str, number: str, *words: str) -> int:
    """Run the command, and die or stop at the point."""
    left = [None] * int(number)

    def strike(passed: str) -> None:
        if passed == point and left:
            left.pop()
            if not left:
                os.kill(os.getpid(), signal.Signals[sent])

    Sessions._start = start_there  # type: ignore[assignment,method-assign]
    with inject_faults(strike):
        return run_command(words)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
