"""Stores instants as whole microseconds since 1970 in UTC, which sort and index as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

import sqlalchemy as sa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_micros(instant: datetime) -> int:
    """Return the microseconds from 1970 to an aware instant; negative before."""
    passed = instant - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


@lru_cache(maxsize=1 << 16)  # the same few labels are read over and over, and an instant keeps its hash
def from_micros(micros: int) -> datetime:
    """Return the aware UTC instant that is `micros` microseconds after 1970."""
    return _EPOCH + timedelta(microseconds=micros)


class Instant(sa.types.TypeDecorator[datetime]):
    """A column of aware UTC instants, stored as BIGINT microseconds."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: sa.Dialect) -> int | None:
        """Convert an instant to a number."""
        return None if value is None else to_micros(value)

    def process_result_value(self, value: int | None, _dialect: sa.Dialect) -> datetime | None:
        """Convert a number to an instant."""
        return None if value is None else from_micros(value)
