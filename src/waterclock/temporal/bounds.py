"""Defines the earliest start and the open end of versions, as constants and as Spark SQL; does not import Spark."""

from __future__ import annotations

from datetime import UTC, datetime

# the end of versions that are current, and the earliest start, in all temporal frames
OPEN = datetime(9999, 12, 31, tzinfo=UTC)
OPEN_MICROS = 253_402_214_400_000_000
BEGINNING_MICROS = -62_135_596_800_000_000


def can_begin_sql(time: str) -> str:
    """Return the SQL condition that a version can begin at the SQL expression `time`: year 1 to before OPEN."""
    return f"{time} >= timestamp_micros({BEGINNING_MICROS}L) AND {time} < timestamp_micros({OPEN_MICROS}L)"
