"""What a plan says: batches with their status and reason, and the groups that may be claimed now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from waterclock.batches.facts import AT_LAST, RECOMPUTE, RELEASE, Closing, Missing, Pause
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Read
from waterclock.planner.sharing import Queries
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window

# how somebody may ask that a done batch is made again: of what it read, by asking its source, or without its rows
RECOLLECT = "recollect"
GIVE_UP = "skip"


class Status(StrEnum):
    """The states of a batch: the stored ones, and those the planner derives (docs/explain/life-of-a-batch.md)."""

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
"""The reason of a batch that somebody has asked a runner to release."""
NEEDS_SOMEBODY = frozenset({Status.FAILED, Status.HELD, Status.EXPIRED})
"""What goes no further by itself, and blocks what reads it."""
STOPS = NEEDS_SOMEBODY | {Status.BLOCKED}
"""The statuses of causes that block a batch; a table whose declaration is refused is BLOCKED itself."""


class ReadScope(StrEnum):
    """Whether a reference means rows by timelabel or the table's whole content at a tick."""

    SLICES = "slices"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class BoundRead:
    """A reference bound to a batch: slices of `table` in `[low, high)`, or its state as of `high`.

    For a state of a REPLACE table `low` is the start of the window ending at `high`; for APPEND and MERGE it is the
    table's START. An empty interval (low == high) reads nothing, but has the table's columns.
    """

    read: Read
    scope: ReadScope
    low: datetime
    high: datetime

    def to_dict(self) -> dict[str, Any]:
        """Return the read for JSON."""
        return {
            "table": self.read.table,
            "read": str(self.read),
            "scope": str(self.scope),
            "low": _instant(self.low),
            "high": _instant(self.high),
        }


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """A window that is open at a boundary, and what its rows up to there are made of."""

    window: Window
    reads: tuple[BoundRead, ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """What a blocked or waiting batch waits for."""

    table: str
    window: Window
    status: Status
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the cause for JSON."""
        return {"table": self.table, "label": self.window.label, "status": str(self.status), "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Batch:
    """One due batch. `is_revision`: it was done before and runs again, for `reason`.

    `verb`: how somebody asked for that, `recompute`, `recollect` or `skip`; None where nobody did. `choice`: which of
    its table's queries makes it, `WHEN ...` or `ELSE`; None where there is one for all. `missing`: what it is made
    without, where it waits no longer (PARTIAL AFTER): a reference may be bound to several spans then. `begins`: the
    START of the table whose late rows it keeps. `closing`: where its books are closed, of a table that says when.
    `opened`: the open windows that it makes, of a table that holds those of another. `is_outdated`: it is held, and
    what it had read has changed since, so that it cannot be released.
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

    @property
    def is_partial(self) -> bool:
        """Whether it is made without something, or of books that were closed though their condition did not hold."""
        return bool(self.missing) or (self.closing is not None and self.closing.reason == AT_LAST)

    @property
    def label(self) -> datetime:
        """The window's start; `window.label` is its text."""
        return self.window.start

    def to_dict(self) -> dict[str, Any]:
        """Return the batch for JSON; `end` is the end of its window."""
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
            **({} if self.closing is None else {"closing": self.closing.to_dict()}),
            **({"open_windows": [each.window.label for each in self.opened]} if self.opened else {}),
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Ready labels of one table that share a claim, a Spark job and a commit, oldest first."""

    table: str
    batches: tuple[Batch, ...]

    @property
    def verb(self) -> str | None:
        """How somebody asked that the labels are made again: the labels of a group share it."""
        return self.batches[0].verb

    @property
    def is_made_of_kept(self) -> bool:
        """Whether the labels are made again without asking their source."""
        return self.verb in {RECOMPUTE, GIVE_UP, RELEASE}

    def to_dict(self) -> dict[str, Any]:
        """Return the group for JSON: the labels alone, for the plan lists their batches."""
        return {"table": self.table, "labels": [batch.window.label for batch in self.batches]}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done at `now`.

    `batches`: every due batch that is not done and needed, oldest first within dependency order, at most the cap a
    table (`left_out` counts the others by table). `groups`: what may be claimed at this moment, in order of claiming.
    `next_due`: the first instant after `now` at which something becomes due. `older_code`: by table, how many done
    labels ran under another fingerprint than today's. `reported`: by table, the done labels that read what was restated
    since and are not made again by themselves (ON RESTATE REPORT), oldest first. `following`: by table, how many done
    batches rest on those that are made again, and follow where rows turn out to differ. `behind`: by table, the done
    labels of REPLACE transforms whose inputs were restated since and that nobody needs, oldest first: they are made
    again only when somebody asks for them. `queries`: by table, how many queries write what is ready or waits.
    `paused`: by table, its own pause; `paused_all`: that of all. `partial`: by table and label, what done batches were
    made without and wait for, to be made whole. `refused`: by table, why its declaration is (E405).
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
    queries: Mapping[str, Queries] = field(default_factory=dict)
    paused: Mapping[str, Pause] = field(default_factory=dict)
    paused_all: Pause | None = None
    partial: Mapping[str, Mapping[datetime, tuple[Missing, ...]]] = field(default_factory=dict)
    refused: Mapping[str, WaterclockError] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan for JSON: the same keys and the same order for the same plan."""
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
        }


@dataclass(frozen=True, slots=True)
class Ripple:
    """What making done batches again may come to, by table, upstream first and oldest first.

    `asked`: the batches that somebody asks for. `following`: those that rest on them, directly or through others; each
    runs again only where the rows it read turn out to differ.
    """

    asked: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)
    following: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)

    @property
    def all(self) -> dict[str, tuple[Window, ...]]:
        """All of them by table, oldest first."""
        names = dict.fromkeys((*self.asked, *self.following))
        return {name: tuple(sorted({*self.asked.get(name, ()), *self.following.get(name, ())})) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the ripple for JSON."""
        return {
            kind: {name: [window.label for window in windows] for name, windows in of.items()}
            for kind, of in (("asked", self.asked), ("following", self.following))
        }


def _label_texts(labels: Mapping[str, tuple[datetime, ...]]) -> dict[str, list[str]]:
    return {name: [label_of(label) for label in of_table] for name, of_table in labels.items()}


def _instant(instant: datetime | None) -> str | None:
    """Write an instant in UTC, to the second."""
    return None if instant is None else instant.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
