"""Identifies the refusal that stopped a query, from Spark's error that only reports an exception inside the query.

A query can refuse a row only by `raise_error`, which Spark wraps in errors of its own, several levels deep for writes.
"""

from __future__ import annotations

import re
from types import MappingProxyType

from waterclock.errors import WaterclockError

# the text in Spark's error
UNPLACED = "E304 a row without key or time"
UNTIMED = "E304 a time at which no version can begin"
OVERLAPPING = "E309 periods of a key of the parent overlap"
UNSPELT = "E310 an unknown format for format_attribute"
_RAISED = "[USER_RAISED_EXCEPTION] "
# the fix of each, and the values of the row that stopped the query
_TOLD = MappingProxyType(
    {
        UNPLACED: ("counts=Counts() leaves such rows out and counts them", "its key and time are {}"),
        UNTIMED: (
            "use an instant of the years 1 to 9999, before 9999-12-31; counts=Counts() leaves such rows out",
            "its key and time are {}",
        ),
        OVERLAPPING: ("make valid ones from raw rows with compute_temporal", "the key is {}"),
        # a part of the function's SQL, and so of the fingerprints of the tables that call it
        UNSPELT: ("it takes upper, lower, initcap or none", "a row has {}"),
    }
)


def stop_text(refusal: str) -> str:
    """Return the message that a query raises, for users who only see Spark's error."""
    return f"{refusal}; {_TOLD[refusal][0]}"


def refusal_of(error: BaseException) -> WaterclockError | None:
    """Return the refusal that stopped a query, from the text of Spark's error; None for any other error.

    Only our own texts count: a `raise_error` of the user's that begins with a code stays the user's. They count only as
    a raised exception, because they also occur in a plan that Spark prints below another error. The values of the row
    follow in brackets.
    """
    text = str(error)
    for refusal, (fix, says) in _TOLD.items():
        if (found := re.search(re.escape(_RAISED + stop_text(refusal)) + r"(?: \[(.*?)\])?", text)) is not None:
            code, _, what = refusal.partition(" ")
            return WaterclockError(code, what, why=says.format(found[1]) if found[1] else None, fix=fix)
    return None
