"""Defines the history of a batch: its state, each attempt at it, and its inputs. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from waterclock.batches.records import Input


@dataclass(frozen=True, slots=True)
class BatchState:
    """The state of one batch. `status` is None if nothing about it is stored; the planner then derives it.

    `rows`, `code` and `current_claim` belong to the current revision, and are None without one. `claim` is the claim of
    the newest attempt.
    """

    table: str
    label: datetime
    end: datetime | None
    status: str | None
    rows: int | None
    claim: int | None
    current_claim: int | None
    attempts: int
    error: str | None
    due_again: datetime | None
    requested: str | None
    is_suspect: bool
    stands_from: datetime | None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class StoredStates:
    """The stored states of the batches in a time span: the done labels of each table, ascending, and other batches."""

    done: Mapping[str, Sequence[datetime]] = field(default_factory=dict)
    others: tuple[BatchState, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """A done batch, with the number of rows of its current revision and its other measures by name.

    `is_partial`: it went without an input (PARTIAL AFTER).
    """

    label: datetime
    rows: int
    measures: Mapping[str, Any]
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class Revision:
    """The result of a committed claim for one label."""

    version: int
    rows: int
    bytes: int
    digest: str | None
    slice_path: str
    stands_from: datetime | None
    measures: Mapping[str, Any]
    timings: Mapping[str, float]
    source: Mapping[str, Any]
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class Attempt:
    """One claim of a label, open, done, failed, held or lost. `revision` is set if the claim committed this label."""

    claim: int
    status: str
    who: str
    runner: str
    run: str | None
    code: str
    flow: str
    now: datetime
    claimed_at: datetime
    closed_at: datetime | None
    error: str | None
    inputs: tuple[Input, ...]
    revision: Revision | None


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the ledger's append-only event log."""

    id: int
    at: datetime
    kind: str
    who: str
    table: str | None
    label: datetime | None
    claim: int | None
    run: str | None
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RuleNote:
    """A user's note on a rule of a table. It is in effect until the next note."""

    table: str
    rule: str
    text: str
    who: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Audit:
    """Everything that the ledger has recorded about one batch, oldest first."""

    cell: BatchState
    attempts: tuple[Attempt, ...]
    events: tuple[Event, ...]

    @property
    def current(self) -> Attempt | None:
        """The attempt that made the current revision, or None."""
        return next((each for each in self.attempts if each.claim == self.cell.current_claim), None)


@dataclass(frozen=True, slots=True)
class Link:
    """A batch that another batch was made from, or that was made from it (`depth` reads away), and its claim.

    `is_replaced`, upstream: other rows have replaced these since they were read. Downstream: the batch was made,
    directly or through other batches, from a revision that other rows have replaced since.
    """

    depth: int
    table: str
    label: datetime
    claim: int
    rows: int
    code: str
    is_replaced: bool = False


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run: its user, its command, and the instant for which it planned (`now`)."""

    run: str
    who: str
    command: str
    now: datetime
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None


DECLARED = "declared"
"""The kind of event that records a table's new statement."""

RENAMED = "renamed"
"""The kind of event that records the former name of a table."""

CLOSED = "closed"
"""The kind of event that records who closed a window by hand, at which tick and why."""

REOPENED = "reopened"
"""The kind of event that records up to which tick late rows reopened windows."""

PAUSED, RESUMED = "paused", "resumed"
"""The kinds of event that record when a pause began and ended: of one table, or of all if no table is named."""

RESET = "reset"
"""The kind of event that records who reset a table, when and why."""

BEGUN_ANEW = ("rebuilt", RESET)
"""The kinds of event that can invalidate a table's whole earlier history: they do if their data has `is_recut`."""

SPARK_PAGE = "spark page"
"""The kind of event that records the address of the Spark UI of a run."""


@dataclass(frozen=True, slots=True)
class PauseEvent:
    """The start or the end of one pause, of a table or of all: by whom, when by the ledger's clock, and why."""

    at: datetime
    kind: str
    is_of_all: bool
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class CodeVersion:
    """One version of a table's code: when and by whom it was declared, and which current labels it made.

    `statement` and the fields before it are None if the ledger did not record them yet. `count` is the number of labels
    from `first` to `last`; there may be gaps between them.
    """

    code: str
    declared_at: datetime | None
    who: str | None
    statement: str | None
    count: int
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True)
class DeclaredStatement:
    """One declaration of a table: when, the fingerprint of its code, and the text of its statement."""

    at: datetime
    table: str
    code: str
    statement: str


@dataclass(frozen=True, slots=True)
class RunClaim:
    """One claim of a run: `count` labels of a table from `first` to `last`, its start and end, and its outcome.

    `status` is open, done, failed, held or lost. `rows` counts the committed rows, and is None if nothing was
    committed. `seconds` is the time by step, summed over all labels of the claim. `code` is the fingerprint of the code
    that the claim ran.
    """

    claim: int
    table: str
    code: str
    first: datetime
    last: datetime
    count: int
    status: str
    claimed_at: datetime
    closed_at: datetime | None
    rows: int | None
    seconds: Mapping[str, float]
    error: str | None


@dataclass(frozen=True, slots=True)
class RunnerClaim:
    """An open claim of a runner: labels of one table, the start of the claim, and the end of its lease."""

    claim: int
    table: str
    labels: tuple[datetime, ...]
    since: datetime
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class RunnerSeen:
    """A runner that is active, or that left open claims.

    `flow` is the fingerprint of the flow that it runs. `seen_at` is None for a runner that is known only by its claims.
    After `alive_until`, by the ledger's clock, the runner counts as gone.
    """

    runner: str
    who: str
    command: str
    flow: str
    started_at: datetime
    seen_at: datetime | None
    alive_until: datetime
    held: tuple[RunnerClaim, ...]


RULE_NOTED = "rule noted"
"""The kind of event that records a user's note on a rule. It belongs to a table and to no label."""
