"""Defines the errors that a temporal query raises at a row, and finds them in the text of Spark's error.

A query can fail at a row only by `raise_error`, which Spark wraps in errors of its own, several levels deep for writes.
"""

from __future__ import annotations

import re
from types import MappingProxyType

from waterclock.errors import WaterclockError

# the texts in Spark's error
UNPLACED = "E304 a row without key or time"
UNTIMED = "E304 a time at which no version can begin"
OVERLAPPING = "E309 periods of a key of the parent overlap"
UNSPELT = "E310 an unknown format for format_attribute"
_RAISED = "[USER_RAISED_EXCEPTION] "
# the fix of each, and a sentence with the values of the row at which the query failed
_FIXES = MappingProxyType(
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
    """Return the message that a query passes to `raise_error`: the refusal and its fix."""
    return f"{refusal}; {_FIXES[refusal][0]}"


def refusal_of(error: BaseException) -> WaterclockError | None:
    """Return the error of this module that caused a Spark error, or None if the cause is another one.

    The whole text of a refusal is compared, so a user's own `raise_error` that begins with a code is not mistaken for
    one. The text must follow Spark's marker of a raised exception, because a plan that Spark prints below another error
    contains it too.
    """
    text = str(error)
    for refusal, (fix, says) in _FIXES.items():
        if (found := re.search(re.escape(_RAISED + stop_text(refusal)) + r"(?: \[(.*?)\])?", text)) is not None:
            code, _, what = refusal.partition(" ")
            return WaterclockError(code, what, why=says.format(found[1]) if found[1] else None, fix=fix)
    return None
