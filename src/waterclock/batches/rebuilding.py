"""Who makes all tables anew, and until when nobody else may claim a batch. Pure data, kept as JSON in the ledger."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime

from waterclock.batches.facts import Pause

_INSTANTS = ("at", "until")


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """A `rebuild --all` at work: it holds every claim back from the cut of the stage on.

    `token` tells one from another. While the new tables are made, the hold lasts `until` the lease is out; once it
    `is_moving`, some tables may show the new set already, and the hold stands until all do, whoever sees to that.
    One that `is_done` holds nothing. `standing` is the
    token of the set before it that was moved in. Instants are of the ledger's real clock.
    """

    token: str
    runner: str
    who: str
    at: datetime
    until: datetime
    is_moving: bool = False
    is_done: bool = False
    standing: str | None = None

    def holds(self, now: datetime) -> bool:
        """Tell whether nothing may be claimed at `now`."""
        return self.is_moving or (self.until >= now and not self.is_done)

    @property
    def stands(self) -> str | None:
        """The token of the set that was moved in last."""
        return self.token if self.is_done else self.standing

    def pause(self) -> Pause:
        """Return it as what keeps batches from being claimed, in the words of a pause."""
        what = "is moving the new tables in" if self.is_moving else "makes every table anew"
        return Pause(self.at, self.who, f"`rebuild --all` {what} ({self.runner})", is_of_all=True)

    def to_json(self) -> str:
        """Write it as the ledger keeps it."""
        return json.dumps(asdict(self), default=lambda instant: instant.isoformat())


def read_rebuilding(text: str | None) -> Rebuilding | None:
    """Read what `to_json` wrote; None where nothing is at work."""
    if not text:
        return None
    said = json.loads(text)
    return Rebuilding(**said | {name: datetime.fromisoformat(said[name]) for name in _INSTANTS})


def is_moving(known: Rebuilding | None) -> bool:
    """Tell whether some tables may show a new set, and others the old one."""
    return known is not None and known.is_moving


def is_of_one_set(before: Rebuilding | None, after: Rebuilding | None) -> bool:
    """Tell whether what was read between two looks is all of one set: no new one was moved in, begun or ended so."""
    return _set_of(before) == _set_of(after)


def _set_of(known: Rebuilding | None) -> tuple[str | None, bool]:
    return (None, False) if known is None else (known.stands, known.is_moving)
