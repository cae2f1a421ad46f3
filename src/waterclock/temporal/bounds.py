"""Defines the bounds of the instants at which versions begin and end, as Spark SQL; needs no Spark."""

from __future__ import annotations

from datetime import UTC, datetime

# the one open end, and the one beginning, of all temporal frames
OPEN = datetime(9999, 12, 31, tzinfo=UTC)
OPEN_MICROS = 253_402_214_400_000_000
BEGINNING_MICROS = -62_135_596_800_000_000


def can_begin_sql(time: str) -> str:
    """Return the SQL condition that a version can begin at an instant: from the year 1 to before the open end."""
    return f"{time} >= timestamp_micros({BEGINNING_MICROS}L) AND {time} < timestamp_micros({OPEN_MICROS}L)"
