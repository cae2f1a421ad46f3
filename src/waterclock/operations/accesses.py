"""Records the accesses of users: who read, did or was refused what, when and from where."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from waterclock.batches.access import Access
from waterclock.dpl.adhoc import HELD, adhoc_query, tables_of
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.status import STATUS_TABLES
from waterclock.permissions.people import Person

_WITHIN = 60.0  # seconds in which equal accesses are counted
_MOST = 1000  # different accesses that are counted at once
_OTHERS = Access("", "", "other requests", refusal="more different ones within a minute than are recorded one by one")


def query_access(by: Person, flow: Flow, sql: str, *, address: str = "", agent: str = "") -> Access:
    """Return the record of a query: the digest of its text, and the tables that it names, also through views.

    A text that is no valid query has no tables; it is refused before anything is read.
    """
    beside = {f"{name}{suffix}": name for name in flow.tables for suffix in ("_quarantine", HELD)}
    status = {f"waterclock.{name}" for name in STATUS_TABLES}
    try:
        tables = tables_of(adhoc_query(sql, flow, status_tables={*status, *beside}))
    except WaterclockError:
        tables = ()
    digest = sha256(sql.encode("utf-8", "surrogateescape")).hexdigest()
    return Access(by.name, by.sign_in, "query", tables, digest, address, agent)


@dataclass(slots=True)
class AccessLog:
    """Records accesses in a ledger; equal ones within a minute are counted, so that floods of them stay small.

    The first of equal accesses is recorded at once, the others together after the minute. Without a ledger nothing is
    recorded, since nothing has run and there is nothing to read.
    """

    ledger: Callable[[], Ledger | None]
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _counted: dict[Access, list[float]] = field(default_factory=dict)  # the end of its minute, and its further times

    def record(self, access: Access) -> None:
        """Record an access now. Raises  E415 to E425 where the ledger cannot be written."""
        self.write([access])

    def count(self, access: Access) -> Sequence[Access]:
        """Count an access, and return the records to write now."""
        now = self.clock()
        with self._lock:
            due = self._end(now)
            key = access if access in self._counted or len(self._counted) < _MOST else _OTHERS
            if key in self._counted:
                self._counted[key][1] += 1
            else:
                self._counted[key] = [now + _WITHIN, 0]
                due.append(key)
        return due

    def write(self, due: Sequence[Access]) -> None:
        """Write records. Raises  E415 to E425 where the ledger cannot be written."""
        ledger = self.ledger() if due else None
        if ledger is not None:
            ledger.access.record(due)

    def flush(self) -> None:
        """Write all counts that are not written yet."""
        with self._lock:
            due = self._end(float("inf"))
        self.write(due)

    def _end(self, now: float) -> list[Access]:
        over = [access for access, (until, _) in self._counted.items() if until <= now]
        counts = [(access, int(self._counted.pop(access)[1])) for access in over]
        return [replace(access, times=times) for access, times in counts if times]
