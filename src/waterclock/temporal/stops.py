"""Which of our refusals stopped a query, when Spark says only that something was raised inside of it?

A query can refuse a row by `raise_error` alone, which Spark wraps in errors of its own, several deep where it writes.
"""

from __future__ import annotations

from types import MappingProxyType

from waterclock.errors import WaterclockError

# what stands in Spark's text, and how it is mended
UNPLACED = "E304 a row without key or time"
OVERLAPPING = "E309 periods of a key of the parent overlap"
_FIXES = MappingProxyType(
    {
        UNPLACED: "counts=Counts() leaves such rows out and counts them",
        OVERLAPPING: "compute_temporal makes sound ones from raw rows",
    }
)


def stop_text(refusal: str) -> str:
    """Give what a query raises, for those who see Spark's error alone."""
    return f"{refusal}; {_FIXES[refusal]}"


def refusal_of(error: BaseException) -> WaterclockError | None:
    """Give the refusal that stopped a query, from the text of Spark's error; None for any other error.

    Only our own words count: a `raise_error` of the user's that begins with a code stays the user's.
    """
    text = str(error)
    for refusal, fix in _FIXES.items():
        if stop_text(refusal) in text:
            code, _, what = refusal.partition(" ")
            return WaterclockError(code, what, fix=fix)
    return None
