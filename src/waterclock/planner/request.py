"""What a plan is asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from waterclock.selection import Labels

# labels of one table that share a claim: a year of days
GROUP_CAP = 366


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which tables and labels a plan is about, and how much of them; by itself it asks for all.

    `only`: the tables that may run; all others are looked at for causes alone. `listed`: of those that may run, the
    tables whose batches are listed, where not all are. `labels`: those that may run, of all
    tables or by table. `cap`: how many batches of a table are listed, and how many of those that are ready are put
    into groups (what stands before them, blocked, does not count); `group_cap`: how many share a claim. `force`:
    labels to run although done or not needed, as if somebody had asked for it. `clock`: the ledger's real clock, by
    which timed retries go; the plan's `now` where it is not given. `absent`: labels that could run, and that their
    sources do not have yet; what waits no longer (PARTIAL AFTER) goes without them.
    """

    only: Collection[str] | None = None
    listed: Collection[str] | None = None
    labels: Labels | Mapping[str, Labels] | None = None
    cap: int = 1000
    group_cap: int = GROUP_CAP
    force: Mapping[str, frozenset[datetime]] = field(default_factory=dict)
    clock: datetime | None = None
    absent: Mapping[str, frozenset[datetime]] = field(default_factory=dict)

    def labels_of(self, table: str) -> Labels | None:
        """Return the labels of a table that may run, None where all may."""
        return self.labels.get(table) if isinstance(self.labels, Mapping) else self.labels


ALL = Request()
