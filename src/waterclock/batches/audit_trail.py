"""What the ledger tells of a batch's past: how it stands, each attempt at it, what it was made of. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from waterclock.batches.records import Input


@dataclass(frozen=True, slots=True)
class Cell:
    """How one batch stands. `status` is None where nothing is stored of it: the planner derives it.

    `rows`, `code` and `current_claim` are those of the revision that readers see, None where there is none; `claim` is
    the newest attempt's.
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
class Settled:
    """What is stored of the batches of a span: by table the labels that are done, ascending, and all other batches."""

    done: Mapping[str, Sequence[datetime]] = field(default_factory=dict)
    others: tuple[Cell, ...] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """A batch that readers see: how many rows it holds, and all else that was counted of it, by name."""

    label: datetime
    rows: int
    measures: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Revision:
    """What a committed claim made of one label."""

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
    """One claim of a label: who held it, with which code and inputs, and what came of it.

    `status` is open, done, failed, held or lost. `revision` is set where the claim committed this label.
    """

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
    """One entry of the append-only log."""

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
    """What somebody wrote of a rule of a table: it holds until the next one."""

    table: str
    rule: str
    text: str
    who: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Audit:
    """All that is known of one batch, oldest first."""

    cell: Cell
    attempts: tuple[Attempt, ...]
    events: tuple[Event, ...]

    @property
    def current(self) -> Attempt | None:
        """The attempt whose rows readers see."""
        return next((each for each in self.attempts if each.claim == self.cell.current_claim), None)


@dataclass(frozen=True, slots=True)
class Link:
    """One batch on the way up or down from another, `depth` reads away, and the claim whose rows it is about.

    `is_replaced`, upwards: these rows were replaced by others since they were read. Downwards: the batch was made, be
    it through others, of a revision that was replaced by other rows since.
    """

    depth: int
    table: str
    label: datetime
    claim: int
    rows: int
    code: str
    is_replaced: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One call of the project: by whom, with which command, for which logical now."""

    run: str
    who: str
    command: str
    now: datetime
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None


DECLARED = "declared"
"""The kind of event that says by which statement a table is made from then on."""

RENAMED = "renamed"
"""The kind of event that says what a table was called before."""

CLOSED = "closed"
"""The kind of event that says who closed the books of a window by hand, where and why."""

REOPENED = "reopened"
"""The kind of event that says up to which tick late rows opened the books of windows again."""

PAUSED, RESUMED = "paused", "resumed"
"""The kinds of event that say when a table, or where none is named all, was paused, and when that was taken back."""

RESET = "reset"
"""The kind of event that says who had a table started over, when and why."""

BEGUN_ANEW = ("rebuilt", RESET)
"""The kinds of event that may say that nothing counts any more of what a table had: where `is_recut` is set."""

SPARK_PAGE = "spark page"
"""The kind of event that says where the page of a run's Spark is."""


@dataclass(frozen=True, slots=True)
class PauseEvent:
    """One pause of a table or of all, or that it was taken back: by whom, when by the ledger's clock, and why."""

    at: datetime
    kind: str
    is_of_all: bool
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class CodeVersion:
    """One code of a table: when and by whom it was declared, and which labels it made that readers see now.

    `statement` and what stands before it are None where the ledger kept no text yet. `count` labels from `first` to
    `last`, not without gaps.
    """

    code: str
    declared_at: datetime | None
    who: str | None
    statement: str | None
    count: int
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True)
class RunClaim:
    """One claim of a run: `count` labels of a table from `first` to `last`, when it was had, and what came of it.

    `status` is open, done, failed, held or lost. `rows`: of what it committed, None where it committed nothing.
    `seconds`: by step, of all of its labels together. `code`: the fingerprint that it ran under.
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
class Held:
    """An open claim of a runner: labels of one table, since when, and until when its lease runs."""

    claim: int
    table: str
    labels: tuple[datetime, ...]
    since: datetime
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class RunnerSeen:
    """A runner that is at work, or left claims behind.

    `flow` is the fingerprint it works from. `seen_at` is None of one that only its claims tell of. `alive_until`: past
    that instant, by the ledger's clock, it is taken for gone.
    """

    runner: str
    who: str
    command: str
    flow: str
    started_at: datetime
    seen_at: datetime | None
    alive_until: datetime
    held: tuple[Held, ...]


RULE_NOTED = "rule noted"
"""The kind of event that holds what somebody wrote of a rule: of its table, and of no label."""
