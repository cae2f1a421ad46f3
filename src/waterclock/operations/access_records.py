"""Records the accesses of users: who read or changed what, or was refused, when and from where."""

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
from waterclock.permissions.users_and_roles import Person

_COUNTING_SECONDS = 60.0  # seconds for which equal accesses are counted instead of recorded one by one
_MOST = 1000  # the maximum number of different accesses that are counted at the same time
_OTHER_ACCESSES = Access(
    "", "", "other requests", refusal="more different ones within a minute than are recorded one by one"
)


def query_access(by: Person, flow: Flow, sql: str, *, address: str = "", agent: str = "") -> Access:
    """Build the access record of a query: the digest of its text, and the tables that it reads, also through views.

    The record of an invalid query has no tables, because the query is refused before anything is read.
    """
    companions = {f"{name}{suffix}": name for name in flow.tables for suffix in ("_quarantine", HELD)}
    status = {f"waterclock.{name}" for name in STATUS_TABLES}
    try:
        tables = tables_of(adhoc_query(sql, flow, status_tables={*status, *companions}))
    except WaterclockError:
        tables = ()
    digest = sha256(sql.encode("utf-8", "surrogateescape")).hexdigest()
    return Access(by.name, by.sign_in, "query", tables, digest, address, agent)


@dataclass(slots=True)
class AccessLog:
    """Records accesses in a ledger. Equal accesses within a minute are counted, so that a flood makes few records.

    The first of equal accesses is recorded at once, the others as one record after the minute. Before the first run
    there is no ledger, and nothing is recorded: there are no tables to read yet.
    """

    ledger: Callable[[], Ledger | None]
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _counts: dict[Access, list[float]] = field(default_factory=dict)  # end of its minute, repetitions

    def record(self, access: Access) -> None:
        """Record an access at once. Raises E415 to E425 if the ledger cannot be written."""
        self.write([access])

    def count(self, access: Access) -> Sequence[Access]:
        """Count an access, and return the access records that are due to be written to the ledger."""
        now = self.clock()
        with self._lock:
            due = self._take_ended_counts(now)
            key = access if access in self._counts or len(self._counts) < _MOST else _OTHER_ACCESSES
            if key in self._counts:
                self._counts[key][1] += 1
            else:
                self._counts[key] = [now + _COUNTING_SECONDS, 0]
                due.append(key)
        return due

    def write(self, due: Sequence[Access]) -> None:
        """Write access records to the ledger. Raises E415 to E425 if the ledger cannot be written."""
        ledger = self.ledger() if due else None
        if ledger is not None:
            ledger.access.record(due)

    def flush(self) -> None:
        """Write all counted accesses that are not in the ledger yet."""
        with self._lock:
            due = self._take_ended_counts(float("inf"))
        self.write(due)

    def _take_ended_counts(self, now: float) -> list[Access]:
        expired = [access for access, (until, _) in self._counts.items() if until <= now]
        counts = [(access, int(self._counts.pop(access)[1])) for access in expired]
        return [replace(access, times=times) for access, times in counts if times]
