"""Defines the records that are written to the ledger: claims with their pinned inputs, and their results. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from waterclock.batches.lease_times import has_lease_expired
from waterclock.batches.skew import skew_words

QUARANTINED = "quarantined"
"""The measure of a batch that counts its quarantined rows."""
INPUTS_FOUND = "input_rules"
"""The measure of a batch with the results of the rules on its inputs, by table."""
MISSING = "missing"
"""The entry in a batch's source notes that lists its missing inputs."""
WARNINGS = "warnings"
"""The measure of a batch that lists the warnings about its rows."""


def warnings_of(measures: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the warnings about a batch's rows from the measures of its revision."""
    return tuple(map(str, measures.get(WARNINGS, ())))


def describe_warnings_and_skew(measures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the warnings about a batch's rows and its skew in words, each with its kind."""
    skew = skew_words(measures)
    return [*(("Warning", text) for text in warnings_of(measures)), *([("Skew", skew)] if skew else ())]


def count_quarantined(measures: Mapping[str, Any]) -> int:
    """Return the number of rows in a batch's quarantine, both of its own rows and of its inputs."""
    own = int(measures.get(QUARANTINED) or 0)
    return own + sum(int(of.get(QUARANTINED) or 0) for of in measures.get(INPUTS_FOUND, {}).values())


@dataclass(frozen=True, slots=True)
class Input:
    """One pinned read of a batch: the interval `[low, high)` of `table`, read at a Delta version.

    `kind` is 'slices' (rows by timelabel) or 'state' (the table as of `high`). `location` is the Delta table's folder
    relative to the storage, `version` its version when it was claimed. `content` has the form of `InputFact.recorded`.
    `changes` is taken from the pin: if it is still the same at the claim, the table has not changed in between.
    """

    table: str
    read: str
    kind: str
    low: datetime
    high: datetime
    location: str
    version: int
    content: str
    changes: int | None = None


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A request for the right to commit `labels` (window starts) of `table`, once.

    `inputs` are by label. `now` is the logical now of the run; `lease_seconds` runs on the ledger's real clock.
    `target_version` is the table's Delta version known to the ledger (-1 before its first commit): verification walks
    the log forward from it. `restates` is why done labels are made again that no user requested and whose inputs did
    not change: late rows within a LOOKBACK. `run` is the name of the run, if there is one. `pool` is the table's pool,
    with how many of its batches may run at once, on any runner. `seen`: done labels that are restated only if the claim
    that made them is still this one. `closed`: the planned closing ticks of windows. `held`: labels to release, each
    with the claim that sealed it; they must still be held. If `restates` is None, the release must still be requested.
    `owned`: by label, the ranges of a log that belong to the label from this claim on, whatever its outcome: JSON
    objects with a `name`. `declared`: the table's signature, which a rebuilt ledger takes from the claim's record.
    """

    table: str
    labels: tuple[datetime, ...]
    code: str
    flow: str
    runner: str
    who: str
    now: datetime
    lease_seconds: float
    target_version: int
    inputs: Mapping[datetime, tuple[Input, ...]] = field(default_factory=dict)
    restates: str | None = None
    run: str | None = None
    pool: tuple[str, int] | None = None
    seen: Mapping[datetime, int] = field(default_factory=dict)
    closed: Mapping[datetime, datetime] = field(default_factory=dict)
    held: Mapping[datetime, int] = field(default_factory=dict)
    owned: Mapping[datetime, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    declared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to commit given labels of one table, once. `number` rises, and is at least the time in milliseconds.

    `erasures` is the number of the last erasure of persons before the claim, 0 if there was none.
    """

    number: int
    request: ClaimRequest
    lease_until: datetime
    erasures: int = 0

    def has_expired(self, now: datetime) -> bool:
        """Return whether the lease of the claim has expired at `now`."""
        return has_lease_expired(self.lease_until, now, self.request.lease_seconds)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a committed claim for one label.

    `slice_path` is the sealed slice's folder relative to the table's. `stands_from` is set for snapshots: the batch
    covers `[stands_from, end)`. `digest` is 'rows:high:low' (None if a later scan must compute it). `measures` has
    EXPECT counts and quarantined rows; `timings` has seconds by step; `source` has positions in the source.
    """

    label: datetime
    end: datetime
    version: int
    rows: int
    bytes: int
    digest: str | None
    slice_path: str
    stands_from: datetime | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slice:
    """The current sealed slice of one label."""

    table: str
    label: datetime
    end: datetime
    claim: int
    version: int
    rows: int
    bytes: int
    digest: str | None
    slice_path: str
    stands_from: datetime | None


@dataclass(frozen=True, slots=True)
class CommittedSlice:
    """One slice that a claim committed, current or not, with its version and the time at which it was recorded."""

    label: datetime
    claim: int
    version: int
    slice_path: str
    stands_from: datetime | None
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class TableRecord:
    """The ledger's record of a table: the properties that may not change, and its newest version and label (head)."""

    name: str
    kind: str
    type: str
    mode: str
    cadence: str
    keys: str
    start: datetime | None
    location: str
    head_version: int
    head_label: datetime | None
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Pin:
    """A read resolved at one moment: the table's folder, the Delta version to read, and the content.

    For APPEND, `version` is the table's newest. For REPLACE and MERGE it is the stored version of the state as of the
    interval's end, or `NO_VERSION` if the table keeps none. (Older REPLACE states are in its history; others are made
    again.) `content` has the form of `InputFact.recorded`. `slices` are those to read, by label: of APPEND all in the
    interval, of REPLACE and MERGE the one that made the state. `changes` counts all changes of the table so far.
    """

    table: str
    low: datetime
    high: datetime
    location: str
    version: int
    content: str
    slices: tuple[Slice, ...]
    changes: int

    def input(self, read: str, kind: str) -> Input:
        """Convert the pin to an input of a batch: `read` is the reference as written, `kind` 'slices' or 'state'."""
        place = (self.low, self.high, self.location, self.version)
        return Input(self.table, read, kind, *place, self.content, self.changes)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The effects of recording a claim: the labels whose content changed, and the number of batches to check.

    `suspects` counts the done batches downstream that are now checked for staleness.
    """

    changed: tuple[datetime, ...]
    suspects: int


NO_VERSION = -1
