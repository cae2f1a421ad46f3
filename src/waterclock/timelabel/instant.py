"""Defines instants: aware datetimes whose tzinfo is the single object `datetime.timezone.utc`."""

from __future__ import annotations

from datetime import UTC, datetime

from waterclock.errors import WaterclockError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MONDAY = datetime(1970, 1, 5, tzinfo=UTC)


def utc_of(instant: datetime) -> datetime:
    """Return the same instant in UTC. Raises E106 for a datetime without a zone, or outside of the years 1 to 9999."""
    if instant.tzinfo is UTC:
        return instant
    if instant.tzinfo is None or instant.utcoffset() is None:
        raise WaterclockError(
            "E106",
            f"{instant.isoformat()} has no zone",
            why="an instant is a time in UTC; without a zone it could be any of about forty",
            fix="attach a zone, or read the value in a zone by resolve_local",
        )
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise out_of_range_error(instant.isoformat()) from None


def out_of_range_error(what: str) -> WaterclockError:
    """Build the error for an instant outside of years 1 to 9999."""
    return WaterclockError(
        "E106",
        f"{what} is outside the years 1 to 9999",
        why="labels have four digits for the year",
        fix="use an instant nearer to now",
    )
