"""Defines the parameters of a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from waterclock.selection import Labels

# the maximum number of labels of one table that share a claim: a year of days
GROUP_CAP = 366


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The tables and labels that a plan covers, and its limits. The default covers all of them.

    `only`: the tables that may run; all others are evaluated only as causes. `listed`: the tables whose batches are
    listed, if not all of those that may run. `labels`: the labels that may run, of all tables or by table. `cap`: how
    many batches of a table are listed, the oldest first, and how many of its ready ones are put into groups (blocked
    batches before them do not count). Up to as many failed and held batches after these are listed, too. `group_cap`:
    how many labels share a claim. `force`: labels to make even if done or not needed, as if a user had requested them.
    `clock`: the ledger's real clock, which decides when retries are due; defaults to the plan's `now`. `absent`: labels
    that could run, but whose data is not at their sources yet; batches that stop waiting (PARTIAL AFTER) run without
    them. `at_most`: how many labels of all tables may be made again because inputs were restated; if there are more,
    none is made again without a user's decision. `newest_first`: the newest labels run first, up to 31 in a claim,
    except in tables that run in the order of labels.
    """

    only: Collection[str] | None = None
    listed: Collection[str] | None = None
    labels: Labels | Mapping[str, Labels] | None = None
    cap: int = 1000
    group_cap: int = GROUP_CAP
    force: Mapping[str, frozenset[datetime]] = field(default_factory=dict)
    clock: datetime | None = None
    absent: Mapping[str, frozenset[datetime]] = field(default_factory=dict)
    at_most: int | None = None
    newest_first: bool = False

    def labels_of(self, table: str) -> Labels | None:
        """Return the labels of a table that may run, or None if all may."""
        return self.labels.get(table) if isinstance(self.labels, Mapping) else self.labels


ALL = PlanRequest()
