"""Defines the content of a plan: batches with their status and reason, and the groups that may be claimed now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from waterclock.batches.ledger_snapshot import AT_LAST, RECOMPUTE, RELEASE, Closing, Missing, Pause
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Read
from waterclock.planner.held_restatement import HeldRestatement
from waterclock.planner.sharing import SharedQueries
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window

# ways to request that a done batch is made again: from its source, or as skipped, without rows
RECOLLECT = "recollect"
GIVE_UP = "skip"
# the verb of a batch that adopts the sealed slice of an earlier revision of its label
REVERT = "revert"


class Status(StrEnum):
    """The statuses of a batch: those stored in the ledger, and those that the planner derives.

    See docs/explain/life-of-a-batch.md.
    """

    READY = "ready"
    WAITING = "waiting"
    PAUSED = "paused"
    BLOCKED = "blocked"
    STALE = "stale"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    HELD = "held"
    SKIPPED = "skipped"
    STOOD_FOR = "stood for"
    NOT_NEEDED = "not needed"
    EXPIRED = "expired"
    BEHIND = "behind"


TO_BE_RELEASED = "to be released"
"""The reason of a held batch that a user released, and that a runner must still make visible."""
NEEDS_SOMEBODY = frozenset({Status.FAILED, Status.HELD, Status.EXPIRED})
"""The statuses of batches that do not proceed without a user's action, and that block their readers."""
STOPS = NEEDS_SOMEBODY | {Status.BLOCKED}
"""The statuses of causes that block a batch. Batches of a table whose declaration is refused are BLOCKED."""


class ReadScope(StrEnum):
    """Whether a reference reads rows by timelabel, or the table's whole content at a tick."""

    SLICES = "slices"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class BoundRead:
    """A reference bound for a batch: slices of a table in `[low, high)`, or its state as of `high`.

    For a state of a REPLACE table `low` is the start of the window that ends at `high`; for APPEND and MERGE it is the
    table's START. An empty interval (low == high) reads no rows, but has the table's columns.
    """

    read: Read
    scope: ReadScope
    low: datetime
    high: datetime

    def to_dict(self) -> dict[str, Any]:
        """Return the bound reference as a dictionary for JSON."""
        return {
            "table": self.read.table,
            "read": str(self.read),
            "scope": str(self.scope),
            "low": _instant(self.low),
            "high": _instant(self.high),
        }


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """A window that is open at a boundary, and its inputs up to the boundary."""

    window: Window
    reads: tuple[BoundRead, ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """A batch, with its status, for which another batch waits or by which it is blocked."""

    table: str
    window: Window
    status: Status
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the cause as a dictionary for JSON."""
        return {"table": self.table, "label": self.window.label, "status": str(self.status), "detail": self.detail}


@dataclass(frozen=True, slots=True)
class RevertTarget:
    """The revision that a label is reverted to (`to`), and its current revision (`since`), each by its claim."""

    to: int
    since: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One due batch. `is_revision`: it was done before and is made again, for `reason`.

    `verb` is how a user requested the revision: `recompute`, `recollect` or `skip`; None if no user did. `choice` is
    the query that makes the batch, `WHEN ...` or `ELSE`; None if its table has one query for all windows. `stands_from`
    is the start of the period that a snapshot stands for; None for all other batches. `missing` has the missing inputs
    of a batch that stopped waiting (PARTIAL AFTER); a reference may then be bound to several spans. `begins` is the
    START of the table whose late rows this table keeps. `closing` is the closing of the batch's window, for tables with
    CLOSE WHEN. `opened` has the open windows that the batch makes, for tables of open windows. `is_outdated`: the batch
    is held, and its inputs have changed since, so it cannot be released. `is_over_limit`: it is held because too many
    labels would be made again; it keeps its rows until then. `reverts` is set for the verb `revert`.
    """

    table: str
    window: Window
    status: Status
    reason: str
    reads: tuple[BoundRead, ...] = ()
    causes: tuple[Cause, ...] = ()
    is_revision: bool = False
    stands_from: datetime | None = None
    verb: str | None = None
    choice: str | None = None
    missing: tuple[Missing, ...] = ()
    begins: datetime | None = None
    closing: Closing | None = None
    opened: tuple[OpenWindow, ...] = ()
    is_outdated: bool = False
    reverts: RevertTarget | None = None
    is_over_limit: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether inputs are missing, or the window closed although its condition was not TRUE."""
        return bool(self.missing) or (self.closing is not None and self.closing.reason == AT_LAST)

    @property
    def label(self) -> datetime:
        """The window's start; `window.label` is its text."""
        return self.window.start

    def to_dict(self) -> dict[str, Any]:
        """Return the batch as a dictionary for JSON; `end` is the end of its window."""
        return {
            "table": self.table,
            "label": self.window.label,
            "end": _instant(self.window.end),
            "status": str(self.status),
            "reason": self.reason,
            "is_revision": self.is_revision,
            "verb": self.verb,
            "choice": self.choice,
            "stands_from": _instant(self.stands_from),
            "reads": [read.to_dict() for read in self.reads],
            "causes": [cause.to_dict() for cause in self.causes],
            "missing": [missing.to_dict() for missing in self.missing],
            "is_over_limit": self.is_over_limit,
            **({} if self.closing is None else {"closing": self.closing.to_dict()}),
            **({"open_windows": [each.window.label for each in self.opened]} if self.opened else {}),
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Ready labels of one table that share a claim, a Spark job and a commit, oldest first.

    `is_fresh`: its newest label is a new window that no user requested, and not an old one. Fresh groups go before
    backfills and restatements.
    """

    table: str
    batches: tuple[Batch, ...]
    is_fresh: bool = False

    @property
    def verb(self) -> str | None:
        """The verb of the request to make the labels again; all labels of a group have the same one."""
        return self.batches[0].verb

    @property
    def is_made_of_kept(self) -> bool:
        """Whether the labels are made again from rows that are stored already, without reading their source."""
        return self.verb in {RECOMPUTE, GIVE_UP, RELEASE, REVERT}

    def to_dict(self) -> dict[str, Any]:
        """Return the group as a dictionary for JSON, with its labels only; the plan lists their batches."""
        return {"table": self.table, "labels": [batch.window.label for batch in self.batches]}


@dataclass(frozen=True, slots=True)
class Plan:
    """The batches that are due at `now`, and the groups that may be claimed.

    `batches`: every due batch that is needed and not done, oldest first within dependency order, limited to the cap per
    table (`left_out` counts the others by table; failed and held ones are listed beyond it). `groups`: the groups that
    may be claimed now, in order of claiming. `next_due`: the first instant after `now` at which something becomes due.
    `older_code`: by table, how many done labels ran under another fingerprint than the current one. `reported`: by
    table, the done labels whose inputs were restated since and that are not made again automatically (ON RESTATE
    REPORT), oldest first. `following`: by table, how many done batches were made from batches that are made again; they
    are made again, too, if their input rows turn out to differ. `behind`: by table, the done labels of REPLACE
    transforms whose inputs were restated since and that no batch needs, oldest first; they are made again only on
    request. `queries`: by table, how many queries make the ready and waiting batches. `paused`: by table, its own
    pause; `paused_all`: that of all tables. `partial`: by table and label, the missing inputs for which done batches
    wait, to be made whole. `refused`: by table, the error of its refused declaration (E405). `held_restatements`: by
    table, the done labels that are not made again because they exceed a limit, until a user decides.
    """

    now: datetime
    batches: tuple[Batch, ...] = ()
    groups: tuple[Group, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    next_due: datetime | None = None
    older_code: Mapping[str, int] = field(default_factory=dict)
    reported: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    following: Mapping[str, int] = field(default_factory=dict)
    behind: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    queries: Mapping[str, SharedQueries] = field(default_factory=dict)
    paused: Mapping[str, Pause] = field(default_factory=dict)
    paused_all: Pause | None = None
    partial: Mapping[str, Mapping[datetime, tuple[Missing, ...]]] = field(default_factory=dict)
    refused: Mapping[str, WaterclockError] = field(default_factory=dict)
    held_restatements: Mapping[str, HeldRestatement] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as a dictionary for JSON: the same keys in the same order for the same plan."""
        return {
            "now": _instant(self.now),
            "next_due": _instant(self.next_due),
            "batches": [batch.to_dict() for batch in self.batches],
            "groups": [group.to_dict() for group in self.groups],
            "left_out": dict(sorted(self.left_out.items())),
            "older_code": dict(sorted(self.older_code.items())),
            "reported": _label_texts(self.reported),
            "following": dict(self.following),
            "behind": _label_texts(self.behind),
            "queries": {name: found.to_dict() for name, found in self.queries.items()},
            "paused": {name: pause.to_dict() for name, pause in sorted(self.paused.items())},
            "paused_all": None if self.paused_all is None else self.paused_all.to_dict(),
            "partial": {
                name: {label_of(label): [it.to_dict() for it in lacks] for label, lacks in sorted(of_table.items())}
                for name, of_table in sorted(self.partial.items())
            },
            "refused": {name: error.to_dict() for name, error in sorted(self.refused.items())},
            "held_restatements": {name: held.to_dict() for name, held in self.held_restatements.items()},
        }


@dataclass(frozen=True, slots=True)
class Ripple:
    """The done batches that may be made again because of a request, by table, upstream first and oldest first.

    `requested` has the batches that a user requests. `following` has the batches made from them, directly or through
    others. Each of these is made again only if its input rows turn out to differ.
    """

    requested: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)
    following: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)

    @property
    def all(self) -> dict[str, tuple[Window, ...]]:
        """The windows of `requested` and `following` together, by table, oldest first."""
        names = dict.fromkeys((*self.requested, *self.following))
        return {name: tuple(sorted({*self.requested.get(name, ()), *self.following.get(name, ())})) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the labels of `requested` and `following` as a dictionary for JSON."""
        return {
            kind: {name: [window.label for window in windows] for name, windows in of.items()}
            for kind, of in (("requested", self.requested), ("following", self.following))
        }


def _label_texts(labels: Mapping[str, tuple[datetime, ...]]) -> dict[str, list[str]]:
    return {name: [label_of(label) for label in of_table] for name, of_table in labels.items()}


def _instant(instant: datetime | None) -> str | None:
    """Format an instant in UTC, to the second."""
    return None if instant is None else instant.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
