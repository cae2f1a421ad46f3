"""Defines the settings of a run: how many batches run concurrently, the length of a lease, and how often to retry."""

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
    """The settings of a runner. Times are seconds of the real clock.

    `threads` batches run concurrently in one Spark session. Up to `group_cap` labels of one partitioned table share a
    claim. `catch_up` is the maximum number of due labels of a table in one plan; the others stay due. A batch that
    fails for a transient reason is tried `attempts` times. The wait before a retry is `retry_wait`, doubled each time.
    """

    threads: int = 4
    group_cap: int = GROUP_CAP
    catch_up: int = 1000
    attempts: int = 3
    retry_wait: float = 1.0
    lease: float = 60.0
    runner: str = field(default_factory=runner_name)
    who: str = field(default_factory=_user_name)
