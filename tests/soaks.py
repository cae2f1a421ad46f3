"""The numbers of soaks. Together they run all cases of sampled tests, and random lives that meet every pair."""

from __future__ import annotations

import os

SOAKS = 4


def soak_number() -> int | None:
    """Return the number of this soak from WATERCLOCK_SOAK; None if it is not set: all cases of sampled tests run.

    Raises  ValueError if it is not a number from 0 to 3
    """
    number = os.environ.get("WATERCLOCK_SOAK", "")
    if number and number not in map(str, range(SOAKS)):
        raise ValueError(f"WATERCLOCK_SOAK is {number!r}, not a number from 0 to {SOAKS - 1}")
    return int(number) if number else None
