"""Compares the ledger's clock with its newest record, to notice a clock that went back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.schema import ledger

_LAST_RECORDED = sa.select(ledger.c.last_recorded)
_TOLERANCE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ClockBack:
    """The clock of a ledger and its newest record, which is later. `place` names the machine of the clock."""

    shows: datetime
    last_recorded: datetime
    place: str

    def words(self) -> str:
        """Return a message: what happened, the consequence for new batches, and the fix."""
        return (
            f"the clock was set back: it shows {self.shows:%Y-%m-%d %H:%M:%S}Z, but the last batch was "
            f"recorded at {self.last_recorded:%Y-%m-%d %H:%M:%S}Z; until the clock passes that time, new "
            f"batches are recorded right after it. Fix: correct the clock of {self.place}"
        )


def measure_clock_lag(database: LedgerDatabase) -> ClockBack | None:
    """Return a `ClockBack` if the ledger's clock is now a second or more before its newest record; else None."""
    with database.read() as connection:
        last = connection.execute(_LAST_RECORDED).scalar()
    return compare_clock(database, database.clock(), last)


def compare_clock(database: LedgerDatabase, now: datetime, last: datetime | None) -> ClockBack | None:
    """Return a `ClockBack` if `now` is a second or more before `last`, the time of the newest record; else None."""
    return None if last is None or last - now < _TOLERANCE else ClockBack(now, last, database.clock_place)
