"""Tells which of our refusals stopped a query, when Spark says only that something was raised inside of it.

A query can refuse a row by `raise_error` alone, which Spark wraps in errors of its own, several deep where it writes.
"""

from __future__ import annotations

import re
from types import MappingProxyType

from waterclock.errors import WaterclockError

# what stands in Spark's text, and how it is mended
UNPLACED = "E304 a row without key or time"
UNTIMED = "E304 a time at which no version can begin"
OVERLAPPING = "E309 periods of a key of the parent overlap"
UNSPELT = "E310 an unknown format for format_attribute"
_RAISED = "[USER_RAISED_EXCEPTION] "
# how each is mended, and what the row says that stopped the query
_TOLD = MappingProxyType(
    {
        UNPLACED: ("counts=Counts() leaves such rows out and counts them", "its key and time are {}"),
        UNTIMED: (
            "say an instant of the years 1 to 9999, before 9999-12-31; counts=Counts() leaves such rows out",
            "its key and time are {}",
        ),
        OVERLAPPING: ("compute_temporal makes sound ones from raw rows", "the key is {}"),
        UNSPELT: ("it takes upper, lower, initcap or none", "a row says {}"),
    }
)


def stop_text(refusal: str) -> str:
    """Return what a query raises, for those who see Spark's error alone."""
    return f"{refusal}; {_TOLD[refusal][0]}"


def refusal_of(error: BaseException) -> WaterclockError | None:
    """Return the refusal that stopped a query, from the text of Spark's error; None for any other error.

    Only our own words count: a `raise_error` of the user's that begins with a code stays the user's; and only as
    something raised: they stand as well in a plan that Spark prints below another error. What the row said is in
    brackets behind them.
    """
    text = str(error)
    for refusal, (fix, says) in _TOLD.items():
        if (found := re.search(re.escape(_RAISED + stop_text(refusal)) + r"(?: \[(.*?)\])?", text)) is not None:
            code, _, what = refusal.partition(" ")
            return WaterclockError(code, what, why=says.format(found[1]) if found[1] else None, fix=fix)
    return None
