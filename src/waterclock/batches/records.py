"""What is written to the ledger: claims with their pinned inputs, and what came of them. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

QUARANTINED = "quarantined"
"""The measure of a batch that counts its rows which were set aside."""
INPUTS_FOUND = "input_rules"
"""The measure of a batch that says by table what became of the rows that it read, before its query saw them."""
MISSING = "missing"
"""What of a batch's source says which inputs it was made without."""
WARNINGS = "warnings"
"""The measure of a batch that lists what was said of its rows, a text each."""


def warnings_of(measures: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what was said of a batch's rows, out of the measures that are kept with its revision."""
    return tuple(map(str, measures.get(WARNINGS, ())))


def rows_aside(measures: Mapping[str, Any]) -> int:
    """Return how many rows of a batch are in its quarantine: of what it made, and of what it read."""
    own = int(measures.get(QUARANTINED) or 0)
    return own + sum(int(of.get(QUARANTINED) or 0) for of in measures.get(INPUTS_FOUND, {}).values())


@dataclass(frozen=True, slots=True)
class Input:
    """One reference of one batch, pinned: interval `[low, high)` of `table`, read at a Delta version.

    `kind` is 'slices' (rows by timelabel) or 'state' (the table as of `high`). `location` is the Delta table's folder
    relative to the storage, `version` its version at claim; `content` as in `facts.InputFact`. `changes` is the pin's:
    where it still holds at the claim, nothing was changed between the two.
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
    """Asks for the right to commit `labels` (window starts) of `table`, once.

    `inputs` are by label. `now` is the logical now of the run; `lease_seconds` runs on the ledger's real clock.
    `target_version` is the table's Delta version known to the ledger (-1 before its first commit): verification walks
    the log forward from it. `restates` says why done labels are made again that nobody requested and whose inputs did
    not change: late rows within a LOOKBACK. `run` names the run, where there is one. `pool` is the table's, with how
    many batches of it may run side by side, whoever runs them. `seen`: done labels that are restated only where the
    claim that made them is still this one. `closed`: where the books of windows were closed, as it was planned.
    `held`: labels that are released, which must be held still, each with the claim that sealed what is held; one
    that `restates` nothing is asked for still. `owned`: by label, the items of a log that belong to it from this claim
    on, whatever becomes of it: JSON objects with a `name`.
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


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to commit given labels of one table, once. Numbers rise for ever, above the clock in milliseconds."""

    number: int
    request: ClaimRequest
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What one label of a committed claim came to.

    `slice_path` is the sealed slice's folder relative to the table's. `stands_from` is set for snapshots: the batch
    covers `[stands_from, end)`. `digest` is 'rows:high:low' (None where it must be made by a scan later).
    `measures` holds EXPECT counts and set-aside rows; `timings` seconds by step; `source` positions in the source.
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
    """The current sealed slice of one label, as readers of the table see it."""

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
class Committed:
    """One slice that a claim committed, current or not: at which version, and since when it is known."""

    label: datetime
    claim: int
    version: int
    slice_path: str
    stands_from: datetime | None
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class TableRecord:
    """What the ledger keeps of a table beside its batches: what may not change, and where its head is."""

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
    """What binds a reference at one moment: where the table is, which Delta version to read, what the interval holds.

    `version` is the table's newest for APPEND, and for REPLACE and MERGE the stored one of the state as of the
    interval's end, `NO_VERSION` where the table keeps none (older REPLACE states lie in its history; others are made
    again). `content` is as in `facts.InputFact`. `slices` are those to read, by label: of APPEND all in the interval,
    of REPLACE and MERGE the one that made the state. `changes` counts what was ever changed in the table.
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
        """Return the pin as the input of a batch: `read` is the reference as written, `kind` 'slices' or 'state'."""
        place = (self.low, self.high, self.location, self.version)
        return Input(self.table, read, kind, *place, self.content, self.changes)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What recording a claim changed.

    `changed`: the labels whose content is another than before. `suspects`: how many batches that made suspect.
    """

    changed: tuple[datetime, ...]
    suspects: int


NO_VERSION = -1
