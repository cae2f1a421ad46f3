"""Defines the state of a `rebuild --all`, stored as JSON in the ledger: its owner, and until when it blocks claims."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime

from waterclock.batches.lease_times import LONGEST_TURN, has_lease_expired
from waterclock.batches.ledger_snapshot import Pause

_INSTANTS = ("at", "until")


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """A `rebuild --all` that began `at`. It blocks every claim.

    `token` identifies the rebuild. While the new tables are made, the lock lasts `until` the end of the lease. Once it
    `is_moving`, some tables may be replaced by new ones already, and the lock lasts until all are, whichever runner
    finishes the move. A rebuild that `is_done` locks nothing. `standing` is the token of the previous set of tables.
    `sequence` is that of the ledger's write that began it: the rebuild does not satisfy later requests. `lease_seconds`
    is the length of its lease. Instants are of the ledger's real clock.
    """

    token: str
    runner: str
    who: str
    at: datetime
    until: datetime
    is_moving: bool = False
    is_done: bool = False
    standing: str | None = None
    sequence: int = 0
    lease_seconds: float = LONGEST_TURN.total_seconds()

    def has_expired(self, now: datetime) -> bool:
        """Return whether the lease of the rebuild has expired at `now`."""
        return has_lease_expired(self.until, now, self.lease_seconds)

    def is_blocking(self, now: datetime) -> bool:
        """Return whether all claims are blocked at `now`."""
        return self.is_moving or not (self.is_done or self.has_expired(now))

    @property
    def current_token(self) -> str | None:
        """The token of the rebuild whose tables are in use, or None."""
        return self.token if self.is_done else self.standing

    def pause(self) -> Pause:
        """Convert the rebuild to a pause of all tables, so that users see it in the same way."""
        what = "is moving the new tables in" if self.is_moving else "rebuilds every table"
        return Pause(self.at, self.who, f"`rebuild --all` {what} ({self.runner})", is_of_all=True)

    def to_json(self) -> str:
        """Return the JSON that the ledger stores."""
        return json.dumps(asdict(self), default=lambda instant: instant.isoformat())


def read_rebuilding(text: str | None) -> Rebuilding | None:
    """Parse the JSON that `to_json` returned; return None if no rebuild is running."""
    if not text:
        return None
    parts = json.loads(text)
    return Rebuilding(**parts | {name: datetime.fromisoformat(parts[name]) for name in _INSTANTS})


def is_moving(known: Rebuilding | None) -> bool:
    """Return whether a rebuild is replacing tables, so that some may be new while others are old."""
    return known is not None and known.is_moving


def is_of_one_set(before: Rebuilding | None, after: Rebuilding | None) -> bool:
    """Return whether reads between two checks saw one set of tables: no move to new tables began or ended."""
    return _set_identity(before) == _set_identity(after)


def _set_identity(known: Rebuilding | None) -> tuple[str | None, bool]:
    return (None, False) if known is None else (known.current_token, known.is_moving)
