"""The error for a value that does not fit its column's type, and the range of instants that are valid."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from waterclock.timelabel.instant import EPOCH

FIRST_MICROS, LAST_MICROS = (
    (at - EPOCH) // timedelta(microseconds=1)
    for at in (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
)
"""The first and the last instant that Python's datetime can represent, in microseconds since 1970."""


class TypeMismatch(ValueError):
    """Raised for a value that does not fit its column's type. `value` is that value."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value
