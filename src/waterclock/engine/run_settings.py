"""What may be set of a run: how many batches side by side, how long a lease, how often to try again."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass, field

from waterclock.engine.runner_name import runner_name
from waterclock.planner.request import GROUP_CAP


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How a runner works. Times are seconds of the real clock.

    `threads` batches run side by side in one Spark session. `group_cap` labels of one partitioned table share a claim.
    `catch_up` is the most due labels a table takes up in one planning; the rest stay due. A batch that failed for a
    passing reason is tried `attempts` times, waiting `retry_wait`, doubled each time.
    """

    threads: int = 4
    group_cap: int = GROUP_CAP
    catch_up: int = 1000
    attempts: int = 3
    retry_wait: float = 1.0
    lease: float = 60.0
    runner: str = field(default_factory=runner_name)
    who: str = field(default_factory=_user_name)
